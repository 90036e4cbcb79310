package link

// CreateLink is what the kinds make their links with, for the test of a kind that this package does not have.
var CreateLink = create

package skel

// logFlags: there is nothing of the kind here.
const logFlags = 0

package kube

import "errors"

// What an error of this package may be, for errors.Is.
var (
	ErrNone         = errors.New("no kubeconfig and no service account") // there is no API server to speak to
	ErrNotFound     = errors.New("not found")                            // 404
	ErrUnauthorized = errors.New("the credentials are not valid")        // 401
	ErrForbidden    = errors.New("not allowed")                          // 403
	ErrConflict     = errors.New("it is another one by now")             // 409
	ErrUnavailable  = errors.New("the API server cannot be used now")    // not reached, 429, 5xx, or too slow
)

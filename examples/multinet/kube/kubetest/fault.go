package kubetest

import (
	"net/http"
	"strings"
	"time"
)

// Fault is what is wrong with the server. The zero value makes each answer as it would be.
type Fault struct {
	Method string // of the requests that it is for; empty: all
	Path   string // a part of their path; empty: all
	Times  int    // of how many; 0: all, until Heal

	Delay      time.Duration // the answer takes so much longer
	Status     int           // the answer, in place of the true one; nothing is done
	Body       string        // of that answer; default a Status object, as the API server has it
	RetryAfter string        // its header
	Refuse     bool          // the connection is closed without an answer; nothing is done
	Lose       bool          // it is closed without an answer, but what was asked is done
	Hang       bool          // there is no answer until the client leaves; nothing is done
}

// Fail makes the server fail from now on. Of several faults the first that is for a request counts.
func (s *Server) Fail(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.Times == 0 {
		f.Times = -1
	}
	s.faults = append(s.faults, &f)
}

// Heal takes all faults away, and the latency.
func (s *Server) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults, s.latency = nil, 0
}

// fault is the one that a request meets, the zero one if none; s.mu is held.
func (s *Server) fault(r *http.Request) Fault {
	for _, f := range s.faults {
		if f.Times != 0 && (f.Method == "" || f.Method == r.Method) && strings.Contains(r.URL.Path, f.Path) {
			f.Times--
			return *f
		}
	}
	return Fault{}
}

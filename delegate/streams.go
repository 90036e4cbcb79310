package delegate

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

const (
	maxStdout = 8 << 20 // of the largest result known in the field, 8 KiB, a thousand
	maxStderr = 4 << 10 // what is kept of stderr for an error's details
	maxPipe   = 1 << 20 // no pipe holds more (fs.pipe-max-size)
)

var errTooMuch = errors.New("more than 8 MiB on stdout")

// stream is one of the program's output pipes.
type stream struct {
	r, w *os.File
	sink func([]byte)
	last func() // called when nothing more comes
	done chan struct{}
}

func newStream(sink func([]byte), last func()) (*stream, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &stream{r, w, sink, last, make(chan struct{})}, nil
}

// copy reads until all writers are gone, or until finish.
func (s *stream) copy() {
	defer close(s.done)
	defer s.last()
	buf := make([]byte, 8<<10) // a result fits in it
	for {
		n, err := s.r.Read(buf)
		if n > 0 {
			s.sink(buf[:n])
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			drain(s.r, buf, s.sink)
			return
		}
		if err != nil {
			return
		}
	}
}

// finish ends copy once it has read what stands in the pipe now. The program has ended, so all that it
// wrote is there; what a grandchild that holds the pipe may write later is not waited for.
func (s *stream) finish(patience time.Duration) {
	if hurry(s.r) && patience == 0 {
		<-s.done
		return
	}
	timer := time.NewTimer(max(patience, linger)) // the sink may block, or the system cannot hurry
	defer timer.Stop()
	select {
	case <-s.done:
	case <-timer.C:
	}
}

// close gives the descriptors back. Errors have no meaning: the reading end was only read, and the writing
// end may be closed already.
func (s *stream) close() {
	_ = s.w.Close() // see above, here and below
	select {
	case <-s.done:
		_ = s.r.Close()
	default: // left behind: it closes when it is through
		go func() {
			<-s.done
			_ = s.r.Close()
		}()
	}
}

// streams are both pipes and what was read from them.
type streams struct {
	stdout, stderr *stream
	out            *capped
	tail           *tail
}

// newStreams makes the pipes; tooMuch is called when the program says more than it may.
func newStreams(stderr io.Writer, name string, tooMuch context.CancelCauseFunc) (*streams, error) {
	s := &streams{out: &capped{full: func() { tooMuch(errTooMuch) }}, tail: &tail{to: stderr, name: name}}
	var err error
	if s.stdout, err = newStream(s.out.add, func() {}); err != nil {
		return nil, err
	}
	if s.stderr, err = newStream(s.tail.add, s.tail.flush); err != nil {
		close(s.stdout.done)
		s.stdout.close()
		return nil, err
	}
	return s, nil
}

// read begins to read. The writing ends are the program's alone from here on.
func (s *streams) read() {
	for _, one := range []*stream{s.stdout, s.stderr} {
		_ = one.w.Close() // nothing was written by us
		go one.copy()
	}
}

// collect returns what the program wrote, when it has ended.
func (s *streams) collect() output {
	s.stdout.finish(0)
	s.stderr.finish(linger)
	return output{stdout: s.out.bytes(), tooMuch: s.out.over(), stderr: s.tail.end()}
}

func (s *streams) close() {
	s.stdout.close()
	s.stderr.close()
}

// capped keeps up to maxStdout bytes.
type capped struct {
	mu   sync.Mutex
	kept []byte
	lost bool
	full func()
}

func (c *capped) add(p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if room := maxStdout - len(c.kept); len(p) > room {
		p = p[:room]
		if !c.lost {
			c.lost = true
			c.full()
		}
	}
	c.kept = append(c.kept, p...)
}

func (c *capped) bytes() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kept
}

func (c *capped) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost
}

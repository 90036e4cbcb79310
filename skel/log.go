package skel

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cnikit/cnikit/netconf"
)

// levelOff is above all levels.
const levelOff = slog.Level(math.MaxInt)

// callLog is the log of one call. There is one form of line, that of slog's text handler: the lines of a plugin end
// in a runtime's journal among others', where a person greps for them, and whoever wants fields finds key=value.
type callLog struct {
	to     slog.Handler
	plugin string
	req    *netconf.Request
	begun  time.Time
	step   atomic.Pointer[string] // the one that runs, for what req.Warn says, which has no context
	said   *warnings              // nil: nobody asks
}

// openLog begins the log of a call in a process of its own, on stderr and where the configuration says; end ends it.
func (c *core) openLog(req *netconf.Request, stderr io.Writer, begun time.Time) (l *callLog, end func()) {
	conf, _, _ := c.readLogConfig(req) // what is wrong with it is told by checkLog
	out, file := &stream{to: stderr}, &logFile{path: string(conf.File)}
	lines := &stream{to: file}
	h := newHandler(conf, out, lines)
	l = &callLog{to: h, plugin: c.name, req: req, begun: begun, said: &warnings{}}
	h.lost = onlyOnce(func(err error) {
		alone := &callLog{to: h.stderr, plugin: c.name, req: req, begun: begun}
		alone.warn("the log file cannot be written, goes on without it", "file", file.path, "error", err.Error())
	})
	req.Stderr, req.Warn = out, l.warn
	return l, lines.close
}

// handler writes what every line of the call has; step is empty outside of one.
func (l *callLog) handler(step string) slog.Handler {
	attrs := []slog.Attr{
		slog.String("plugin", l.plugin), slog.String("verb", string(l.req.Command)), slog.String("network", l.req.Network.Name),
		slog.String("container", l.req.ContainerID), slog.String("ifname", l.req.IfName), slog.String("step", step),
	}
	if t := lookup(l.req.Environ, "TRACEPARENT"); isTraceparent(t) {
		attrs = append(attrs, slog.String("traceparent", t))
	}
	return timed{Handler: l.to.WithAttrs(attrs), begun: l.begun}
}

// timed puts into each line how long the call has run so far: when it is written, and outside of the groups that an
// author has opened.
type timed struct {
	slog.Handler
	begun time.Time
	then  []func(slog.Handler) slog.Handler // what the author has added
}

func (t timed) Handle(ctx context.Context, r slog.Record) error {
	h := t.Handler.WithAttrs([]slog.Attr{slog.Duration("duration", time.Since(t.begun).Round(time.Microsecond))})
	for _, add := range t.then {
		h = add(h)
	}
	return h.Handle(ctx, r)
}

func (t timed) WithAttrs(attrs []slog.Attr) slog.Handler {
	return t.with(func(h slog.Handler) slog.Handler { return h.WithAttrs(attrs) })
}

func (t timed) WithGroup(name string) slog.Handler {
	return t.with(func(h slog.Handler) slog.Handler { return h.WithGroup(name) })
}

func (t timed) with(add func(slog.Handler) slog.Handler) slog.Handler {
	t.then = append(slices.Clip(t.then), add)
	return t
}

// line writes a line. A log that cannot be written is no reason for a call to fail.
func (l *callLog) line(ctx context.Context, level slog.Level, step, msg string, more ...any) {
	if !l.to.Enabled(ctx, level) {
		return
	}
	r := slog.NewRecord(time.Now(), level, msg, 0)
	r.Add(more...)
	_ = l.handler(step).Handle(ctx, r) // see above
}

// panicked is what is warned of with the stack of a panic, which is an error.
const panicked = "panic"

// warn is what becomes the request's Warn.
func (l *callLog) warn(msg string, args ...any) {
	if l.said != nil {
		l.said.add(msg)
	}
	step := ""
	if name := l.step.Load(); name != nil {
		step = *name
	}
	level := slog.LevelWarn
	if msg == panicked {
		level = slog.LevelError
	}
	l.line(context.Background(), level, step, msg, args...)
}

// end is the one line at the end of a call. What else of the trace is known stands in it alone: it can be long.
func (l *callLog) end(ctx context.Context, err error) {
	if l.req.Command == "" { // started by hand: no call, and the person sees the document
		return
	}
	if err == nil && !l.to.Enabled(ctx, slog.LevelInfo) { // the usual case
		return
	}
	level, msg, attrs := slog.LevelInfo, "done", []any{"code", netconf.Code(err)}
	if err != nil {
		level, msg, attrs = slog.LevelError, "failed", append(attrs, "error", err.Error())
	}
	for _, key := range []string{"TRACESTATE", "BAGGAGE"} {
		if v := lookup(l.req.Environ, key); isPrintable(v) {
			attrs = append(attrs, strings.ToLower(key), v)
		}
	}
	l.line(ctx, level, "", msg, attrs...)
}

// logPlace is where in a call the context's holder is.
type logPlace struct {
	log  *callLog // nil: a daemon's logger alone
	to   slog.Handler
	step string
}

type logKey struct{}

func (l *callLog) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, logKey{}, &logPlace{log: l, to: l.to})
}

// logged makes the log of a step: its beginning and its end at level debug, its name in what it logs itself, also
// by req.Warn.
func logged(ctx context.Context, req *netconf.Request, name string, f func(context.Context) error) error {
	at, _ := ctx.Value(logKey{}).(*logPlace)
	if at == nil || at.log == nil {
		return f(ctx)
	}
	l := at.log
	ctx = context.WithValue(ctx, logKey{}, &logPlace{log: l, to: l.to, step: name})
	outer := l.step.Swap(&name)
	defer l.step.Store(outer)
	if !l.to.Enabled(ctx, slog.LevelDebug) {
		return f(ctx)
	}
	verb, begun := string(req.Command), time.Now() // in a rollback, DEL
	l.line(ctx, slog.LevelDebug, name, verb+" begins")
	err := f(ctx)
	attrs := []any{slog.Duration("took", time.Since(begun).Round(time.Microsecond))}
	if err != nil {
		attrs = append(attrs, "error", err.Error())
	}
	l.line(ctx, slog.LevelDebug, name, verb+" ended", attrs...)
	return err
}

// Logger returns the log of the call that the context of a step's method belongs to. Each line has the plugin,
// verb, network, container, interface, step, and how long the call has run already; what is at which level is said in the package
// comment. Elsewhere it is a logger that drops everything. Values must not be secret: logs are read by many.
//
// It is for the steps of a plugin. What a runtime's operator should know for sure is said by
// [netconf.Request.Warn], which is also in the error of a call that fails.
func Logger(ctx context.Context) *slog.Logger {
	at, _ := ctx.Value(logKey{}).(*logPlace)
	if at == nil {
		return slog.New(slog.DiscardHandler)
	}
	if at.log == nil {
		return slog.New(at.to)
	}
	return slog.New(at.log.handler(at.step))
}

// WithLogger returns a context in which [Plugin.Do] logs to a logger of its caller's, which also gets the
// warnings of a request without a Warn. Main and Run do not look at it: theirs is on stderr, and where the
// configuration wants it.
func WithLogger(ctx context.Context, logger *slog.Logger) context.Context {
	return context.WithValue(ctx, logKey{}, &logPlace{to: logger.Handler()})
}

// handlerOf is where a call made within the context logs.
func handlerOf(ctx context.Context) slog.Handler {
	if at, _ := ctx.Value(logKey{}).(*logPlace); at != nil {
		return at.to
	}
	return slog.DiscardHandler
}

// handler writes to stderr and, where the configuration wants it, to a file. It is told once when the file cannot
// be written.
type handler struct {
	stderr, file slog.Handler // file may be nil
	lost         func(error)
}

func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.stderr.Enabled(ctx, level) || h.file != nil && h.file.Enabled(ctx, level)
}

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	var err error
	if h.stderr.Enabled(ctx, r.Level) {
		err = h.stderr.Handle(ctx, r)
	}
	if h.file != nil && h.file.Enabled(ctx, r.Level) {
		if err := h.file.Handle(ctx, r); err != nil {
			h.lost(err)
		}
	}
	return err
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.each(func(to slog.Handler) slog.Handler { return to.WithAttrs(attrs) })
}

func (h *handler) WithGroup(name string) slog.Handler {
	return h.each(func(to slog.Handler) slog.Handler { return to.WithGroup(name) })
}

func (h *handler) each(f func(slog.Handler) slog.Handler) slog.Handler {
	with := &handler{stderr: f(h.stderr), lost: h.lost}
	if h.file != nil {
		with.file = f(h.file)
	}
	return with
}

// warnings are those of a call, for the details of its error: a mistyped key may be why it failed, and a
// runtime shows the error and not stderr.
type warnings struct {
	mu   sync.Mutex
	said []string
}

// maxWarnings is how many are repeated in an error; stderr has them all.
const maxWarnings = 5

func (w *warnings) add(msg string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.said) < maxWarnings {
		w.said = append(w.said, "warning: "+msg)
	}
}

func (w *warnings) list() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.said)
}

// stream is stderr, which warnings and delegates write to, perhaps at the same time, or the log file. One that
// takes nothing for a second, as a full pipe that nobody reads, gets no more: a call does not hang for its log.
type stream struct {
	mu   sync.Mutex
	to   io.Writer
	dead bool
}

func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return 0, os.ErrDeadlineExceeded
	}
	text := slices.Clone(p) // the caller has its bytes back if this is left behind
	err := within(leaveAfter, func() error {
		_, err := s.to.Write(text)
		return err
	})
	if err != nil {
		s.dead = errors.Is(err, os.ErrDeadlineExceeded)
		return 0, err
	}
	return len(p), nil
}

// close closes what is written to, unless a write hangs in it.
func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.to.(io.Closer); ok && !s.dead {
		_ = c.Close() // what a full disk or a network makes of the last lines: see callLog.line
	}
	s.dead = true
}

package skel

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/cnikit/cnikit/netconf"
)

// logConfig is what a configuration says about the log, under the key "log".
type logConfig struct {
	Level *logLevel `json:"level"`
	File  logPath   `json:"file"`
}

// logLevel is off, error, warn, info or debug.
type logLevel slog.Level

func (l *logLevel) UnmarshalText(text []byte) error {
	levels := []slog.Level{levelOff, slog.LevelError, slog.LevelWarn, slog.LevelInfo, slog.LevelDebug}
	names := []string{"off", "error", "warn", "info", "debug"}
	i := slices.Index(names, string(text))
	if i < 0 {
		return netconf.Errorf(netconf.CodeInvalidNetworkConfig, "no such level: expected one of %s", strings.Join(names, ", "))
	}
	*l = logLevel(levels[i])
	return nil
}

// logPath is an absolute path: a relative one would depend on where the runtime was started.
type logPath string

func (p *logPath) UnmarshalText(text []byte) error {
	if len(text) > 0 && !filepath.IsAbs(string(text)) {
		return netconf.Errorf(netconf.CodeInvalidNetworkConfig, "not an absolute path")
	}
	*p = logPath(text)
	return nil
}

// readLogConfig reads the key "log". It is the plugin's own, and not looked at, where its configuration has one. What
// decodes is in the answer, whatever else is wrong; of unknown keys in it one is told.
func (c *core) readLogConfig(req *netconf.Request) (conf logConfig, err, unknown error) {
	if len(req.Network.Log) == 0 && c.logKeys != nil {
		in, _ := netconf.DecodeJSON[logConfig](c.logKeys(req.Config), nil) // what is wrong is the plugin's to tell, or nobody's
		return *in, nil, nil
	}
	if len(req.Network.Log) == 0 || hasKey(c.config, "log", 8) {
		return conf, nil, nil
	}
	in, err := netconf.DecodeJSON[struct {
		Log logConfig `json:"log"`
	}](req.Config, nil)
	var keys map[string]json.RawMessage
	_ = json.Unmarshal(req.Network.Log, &keys) // what is no object is in err
	var others []string
	for key := range keys {
		if !strings.EqualFold(key, "level") && !strings.EqualFold(key, "file") {
			others = append(others, key)
		}
	}
	if len(others) > 0 { // each costs a walk to learn its line: of 100,000 one must do
		unknown = req.Invalid("log."+slices.Min(others), "unknown key: expected level or file")
	}
	return in.Log, err, unknown
}

// checkLog is what is wrong with the key "log". A DEL and a GC go on.
func (c *core) checkLog(req *netconf.Request) error {
	_, err, unknown := c.readLogConfig(req)
	var typo *netconf.Error
	switch {
	case unknown == nil:
	case req.Strict && !req.Lenient() && errors.As(unknown, &typo):
		typo.Code = netconf.CodeUnsupportedField
		err = netconf.Join(err, unknown)
	default:
		req.Warn(unknown.Error())
	}
	if err != nil && req.Lenient() {
		req.Warn("ignored: " + err.Error())
		return nil
	}
	return err
}

// hasKey tells whether a configuration has a field for the key, as netconf.Decode finds it; depth is how many
// structs may be embedded in one another, for a type can embed itself.
func hasKey(t reflect.Type, key string, depth int) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || depth == 0 {
		return false
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "" && f.Anonymous:
			if hasKey(f.Type, key, depth-1) {
				return true
			}
		case !f.IsExported():
		case strings.EqualFold(name, key), name == "" && strings.EqualFold(f.Name, key):
			return true
		}
	}
	return false
}

// newHandler makes the log's handler: warnings and errors go to stderr, which is in the runtime's log at every
// call, and from level info to the file, where there is one. The level that the configuration gives is the
// file's, or that of stderr where there is none; with a file, stderr has no more than before.
func newHandler(conf logConfig, stderr, file io.Writer) *handler {
	toStderr, toFile := slog.LevelWarn, slog.LevelInfo
	if conf.Level != nil {
		toFile = slog.Level(*conf.Level)
		if toStderr = toFile; conf.File != "" {
			toStderr = max(toFile, slog.LevelWarn)
		}
	}
	h := &handler{stderr: slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: toStderr}), lost: func(error) {}}
	if conf.File != "" {
		h.file = slog.NewTextHandler(file, &slog.HandlerOptions{Level: toFile})
	}
	return h
}

// onlyOnce tells the first of what may be many failures.
func onlyOnce(f func(error)) func(error) {
	var once sync.Once
	return func(err error) { once.Do(func() { f(err) }) }
}

// logFile is the file of the log, opened for the first line. Each line is one write to a file that is only
// appended to, so those of calls that run at the same time do not mix.
type logFile struct {
	path string
	f    *os.File
	err  error // it could not be opened
}

func (l *logFile) Write(p []byte) (int, error) {
	if l.f == nil && l.err == nil {
		l.f, l.err = openPlain(l.path)
	}
	if l.err != nil {
		return 0, l.err
	}
	n, err := l.f.Write(p)
	if n > 0 && n < len(p) {
		l.endLine()
	}
	return n, err
}

// endLine makes the last byte of a line that was written in part a line break, for which a full disk has room. Of a file that
// is only appended to nobody else has that byte.
func (l *logFile) endLine() {
	end, err := l.f.Seek(0, io.SeekCurrent)
	if err != nil {
		return
	}
	f, err := os.OpenFile(l.path, os.O_WRONLY|logFlags, 0) // what is appended to cannot be written elsewhere
	if err != nil {
		return
	}
	there, err1 := f.Stat()
	ours, err2 := l.f.Stat()
	if err1 == nil && err2 == nil && os.SameFile(there, ours) {
		_, _ = f.WriteAt([]byte{'\n'}, end-1) // at worst the next line stands behind the half one
	}
	_ = f.Close() // as above
}

// openPlain opens a file that is there, or makes it, for root alone. It must be a plain file: in a folder that
// others may write to a link could lead to any file of root's, and a FIFO is waited for.
func openPlain(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|logFlags, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &os.PathError{Op: "open", Path: path, Err: errors.New("not a regular file")}
	}
	if err != nil {
		return nil, netconf.Join(err, f.Close())
	}
	return f, nil
}

// Close closes the file, if a line was written.
func (l *logFile) Close() error {
	if l.f == nil {
		return nil
	}
	return l.f.Close()
}

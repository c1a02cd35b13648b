package pluginhost

import (
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// slogger lets go-plugin's own words through to slog, all of them as debug: what matters to people is said by this
// package. Its level is off, so that go-plugin never parses what plugins print.
type slogger struct {
	hclog.Logger // answers the rest with nothing
	log          *slog.Logger
}

func newSlogger(log *slog.Logger) hclog.Logger {
	return slogger{Logger: hclog.NewNullLogger(), log: log}
}

func (s slogger) GetLevel() hclog.Level                      { return hclog.Off }
func (s slogger) Log(_ hclog.Level, msg string, args ...any) { s.log.Debug(msg, args...) }
func (s slogger) Trace(string, ...any)                       {}
func (s slogger) Debug(msg string, args ...any)              { s.log.Debug(msg, args...) }
func (s slogger) Info(msg string, args ...any)               { s.log.Debug(msg, args...) }
func (s slogger) Warn(msg string, args ...any)               { s.log.Debug(msg, args...) }
func (s slogger) Error(msg string, args ...any)              { s.log.Debug(msg, args...) }
func (s slogger) With(args ...any) hclog.Logger              { return slogger{s.Logger, s.log.With(args...)} }
func (s slogger) Named(string) hclog.Logger                  { return s }
func (s slogger) ResetNamed(string) hclog.Logger             { return s }

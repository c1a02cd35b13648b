package plugin

import (
	"io"
	"log/slog"
	"strings"
)

// newLogger writes one JSON object a line, with the field names that every go-plugin host understands.
func newLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: hostFields}))
}

const hostTime = "2006-01-02T15:04:05.000000Z07:00"

func hostFields(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case slog.TimeKey:
		return slog.String("@timestamp", a.Value.Time().Format(hostTime))
	case slog.LevelKey:
		return slog.String("@level", strings.ToLower(a.Value.String()))
	case slog.MessageKey:
		return slog.String("@message", a.Value.String())
	}
	return a
}

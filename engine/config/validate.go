package config

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

var (
	logLevels  = []string{"debug", "info", "warn", "error"}
	logFormats = []string{"text", "json"}
	exporters  = []string{"", "none", "otlp", "console"}
	verifying  = []string{"auto", VerifyOff}

	checksum = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)
)

// maxSocketPath is the longest path that Linux takes for a Unix socket, in bytes.
const maxSocketPath = 107

// Validate checks what the values mean, and their relations. The error names the key and where its value came from.
// Load has called it.
func (l *Loaded) Validate() error {
	for _, check := range []func() error{l.validateNumbers, l.validateCascade, l.validatePlugins, l.validateTelemetry, l.validateRest} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (l *Loaded) fail(key, format string, args ...any) error {
	return fmt.Errorf("%s: %s %s", l.Origin(key), key, fmt.Sprintf(format, args...))
}

func (l *Loaded) validateNumbers() error {
	g, d, r := l.Config.Group, l.Config.Deadlines, l.Config.Restart
	for _, v := range []struct {
		key   string
		value time.Duration
	}{
		{"group.deadline", g.Deadline},
		{"group.join_deadline", g.JoinDeadline},
		{"deadlines.start", d.Start},
		{"deadlines.call", d.Call},
		{"deadlines.prepare", d.Prepare},
		{"deadlines.self_test", d.SelfTest},
		{"deadlines.worker", d.Worker},
		{"restart.first", r.First},
		{"restart.longest", r.Longest},
		{"restart.stable", r.Stable},
	} {
		if v.value <= 0 {
			return l.fail(v.key, "is %s; it must be greater than zero", text(v.value))
		}
	}
	if g.SlowAfter < 0 {
		return l.fail("group.slow_after", "is %s; it must be 0s, for never, or greater", text(g.SlowAfter))
	}
	if r.Most < 1 {
		return l.fail("restart.most", "is %d; it must be greater than zero", r.Most)
	}
	if m := l.Config.Shared.MaxBytes; m <= 0 {
		return l.fail("shared.max_bytes", "is %s; it must be greater than zero", m)
	}
	return nil
}

func (l *Loaded) validateCascade() error {
	c := l.Config.Cascade
	for _, v := range []struct {
		key  string
		list []string
	}{{"cascade.order", c.Order}, {"cascade.disabled", c.Disabled}} {
		for i, name := range v.list {
			if err := l.backendName(v.key, name); err != nil {
				return err
			}
			if slices.Contains(v.list[:i], name) {
				return l.fail(v.key, "names %s twice", name)
			}
		}
	}
	for _, memory := range slices.Sorted(maps.Keys(c.Fallback)) {
		if name := c.Fallback[memory]; name != "" {
			if err := l.backendName("cascade.fallback."+memory, name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *Loaded) backendName(key, name string) error {
	if validName.MatchString(name) {
		return nil
	}
	return l.fail(key, `names the backend %q; names consist of lower-case letters, digits and "-"`, name)
}

func (l *Loaded) validatePlugins() error {
	for _, name := range slices.Sorted(maps.Keys(l.Config.Plugins)) {
		key := "plugins." + name + ".sha256"
		if sum := l.Config.Plugins[name].SHA256; sum != "" && !checksum.MatchString(sum) {
			return l.fail(key, "is %q; it must be 64 hexadecimal digits, as sha256sum prints them", sum)
		}
	}
	return nil
}

func (l *Loaded) validateTelemetry() error {
	t := l.Config.Telemetry
	if err := l.oneOf("telemetry.traces", t.Traces, exporters); err != nil {
		return err
	}
	if err := l.oneOf("telemetry.metrics", t.Metrics, exporters); err != nil {
		return err
	}
	if t.ServiceName == "" {
		return l.fail("telemetry.service_name", "is empty")
	}
	if t.Endpoint == "" {
		return nil
	}
	if u, err := url.Parse(t.Endpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return l.fail("telemetry.endpoint", "is %q; it must be a URL such as http://localhost:4317", t.Endpoint)
	}
	return nil
}

func (l *Loaded) validateRest() error {
	if err := l.oneOf("log.level", l.Config.Log.Level, logLevels); err != nil {
		return err
	}
	if err := l.oneOf("log.format", l.Config.Log.Format, logFormats); err != nil {
		return err
	}
	if err := l.oneOf("p2p.verify", l.Config.P2P.Verify, verifying); err != nil {
		return err
	}
	if n := len(l.Config.Agent.Socket); n > maxSocketPath {
		return l.fail("agent.socket", "is %d bytes long; the path of a Unix socket has at most %d", n, maxSocketPath)
	}
	return nil
}

func (l *Loaded) oneOf(key, value string, allowed []string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	words := slices.DeleteFunc(slices.Clone(allowed), func(s string) bool { return s == "" })
	return l.fail(key, "is %q; use one of %s", value, strings.Join(words, ", "))
}

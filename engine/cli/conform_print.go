package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/engine/pluginhost"
	"github.com/weir-project/weir/sdk/conformance"
)

// conformReport prints results as they come, or all at the end for a program.
type conformReport struct {
	out    io.Writer
	errs   io.Writer
	format string
	path   string
	began  time.Time

	mu       sync.Mutex
	plugin   pluginhost.Status
	insecure bool
	attached bool
	heading  string // under which the last line was printed
	headed   bool
	causes   map[string]string // the rule at which each was printed below the heading
	results  []conformance.Result
}

func newConformReport(a *app, format string, spec pluginhost.Spec) *conformReport {
	r := &conformReport{out: a.stdout, errs: a.stderr, format: format, path: spec.Path, began: time.Now()}
	if r.attached = spec.Attach != (pluginhost.Address{}); r.attached {
		r.path = spec.Attach.String()
	}
	return r
}

// about is the plugin as it has described itself.
func (r *conformReport) about(p pluginhost.Status, insecure bool) {
	r.plugin, r.insecure = p, insecure
	if r.format == "text" {
		fmt.Fprintf(r.out, "%s: %s %s, %s%s\n", r.path, p.Offered, p.Version, lo.Ternary(len(p.Backends) == 1, "1 backend", fmt.Sprintf("%d backends", len(p.Backends))),
			lo.Ternary(insecure && !r.attached, ", without TLS (tls: false in weir.yaml)", ""))
	}
}

func (r *conformReport) add(x conformance.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results = append(r.results, x)
	if r.format != "text" {
		return
	}
	if heading := r.title(x); !r.headed || heading != r.heading {
		r.heading, r.headed, r.causes = heading, true, map[string]string{}
		fmt.Fprintf(r.out, "%s\n", heading)
	}
	fmt.Fprintf(r.out, "  %-4s  %-28s  %8s", x.Outcome, x.Rule, fmt.Sprintf("%.2fs", x.Took.Seconds()))
	if x.Outcome == conformance.Skipped {
		fmt.Fprintf(r.out, "  %s", strings.ReplaceAll(x.Got, "\n", "; "))
	}
	fmt.Fprintln(r.out)
	if x.Outcome == conformance.Failed {
		fmt.Fprintf(r.out, "        expected  %s\n        seen      %s\n        see       %s\n", x.Want, r.seen(x), x.See)
	}
}

// seen is what was seen of a failure, once: one cause may break many rules.
func (r *conformReport) seen(x conformance.Result) string {
	if before, again := r.causes[x.Got]; again {
		return "the same as " + before
	}
	r.causes[x.Got] = x.Rule
	return strings.ReplaceAll(x.Got, "\n", "\n                  ")
}

// title is the line above the results of a backend, or of the process.
func (r *conformReport) title(x conformance.Result) string {
	if x.Backend == "" {
		return "plugin"
	}
	for _, b := range r.plugin.Backends {
		if b.Name == x.Backend {
			return fmt.Sprintf("backend %s (%s)", b.Name, b.Kind)
		}
	}
	return "backend " + x.Backend
}

func (r *conformReport) progress(rule, backend, doing string, since time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	what := strings.TrimSpace(rule + lo.Ternary(backend == "", "", " of "+backend))
	fmt.Fprintf(r.errs, "weir: at %s for %s%s\n", what, since.Round(time.Second), lo.Ternary(doing == "", "", ": "+doing))
}

// end prints the outcome of all; the error is that a rule is broken.
func (r *conformReport) end() error {
	count := lo.CountValuesBy(r.results, func(x conformance.Result) conformance.Outcome { return x.Outcome })
	if r.format == "json" {
		if err := encodeJSON(r.out, r.json(count)); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(r.out, "%d ok, %d failed, %d skipped in %.1fs\n", count[conformance.OK], count[conformance.Failed], count[conformance.Skipped], time.Since(r.began).Seconds())
	}
	if n := count[conformance.Failed]; n > 0 {
		return fmt.Errorf("%s breaks %s", r.path, lo.Ternary(n == 1, "1 rule", fmt.Sprintf("%d rules", n)))
	}
	return nil
}

type conformJSON struct {
	Path    string        `json:"path"`
	Plugin  string        `json:"plugin"`
	Version string        `json:"version"`
	SHA256  string        `json:"sha256"`
	TLS     bool          `json:"tls"`
	OK      int           `json:"ok"`
	Failed  int           `json:"failed"`
	Skipped int           `json:"skipped"`
	Seconds float64       `json:"seconds"`
	Results []resultsJSON `json:"results"`
}

type resultsJSON struct {
	Rule     string  `json:"rule"`
	Backend  *string `json:"backend"` // null: about the plugin's process
	Outcome  string  `json:"outcome"` // ok, fail, skip
	Seconds  float64 `json:"seconds"`
	Expected string  `json:"expected"`
	Seen     string  `json:"seen,omitempty"`   // of a failure
	Reason   string  `json:"reason,omitempty"` // of a rule that was skipped
	See      string  `json:"see"`
}

func (r *conformReport) json(count map[conformance.Outcome]int) conformJSON {
	return conformJSON{
		Path: r.path, Plugin: r.plugin.Offered, Version: r.plugin.Version, SHA256: r.plugin.SHA256, TLS: !r.insecure, Seconds: time.Since(r.began).Seconds(),
		OK: count[conformance.OK], Failed: count[conformance.Failed], Skipped: count[conformance.Skipped],
		Results: lo.Map(r.results, func(x conformance.Result, _ int) resultsJSON {
			j := resultsJSON{Rule: x.Rule, Outcome: strings.ToLower(string(x.Outcome)), Seconds: x.Took.Seconds(), Expected: x.Want, See: x.See}
			if x.Backend != "" {
				j.Backend = &x.Backend
			}
			switch x.Outcome {
			case conformance.Failed:
				j.Seen = x.Got
			case conformance.Skipped:
				j.Reason = x.Got
			}
			return j
		}),
	}
}

// listRules is `weir plugins test --list`.
func listRules(w io.Writer, format string) error {
	if format == "json" {
		return encodeJSON(w, map[string]any{"rules": lo.Map(conformance.Rules(), func(r conformance.Rule, _ int) map[string]string {
			return map[string]string{"rule": r.Name, "expected": r.Want, "see": r.See()}
		})})
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range conformance.Rules() {
		fmt.Fprintf(t, "%s\t%s\n", r.Name, r.Want)
	}
	return t.Flush()
}

// printedLines keeps what a plugin prints on standard output and complains of in its log, both of which the host logs.
type printedLines struct {
	mu         sync.Mutex
	lines      []string
	complaints []string
}

func (p *printedLines) all() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.lines...)
}

func (p *printedLines) complained() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.complaints...)
}

// complaint is a record as one line, with the error that it carries. Of several lines, such as a traceback, the last says what it was.
func complaint(r slog.Record) string {
	text := strings.TrimSpace(r.Message)
	if first, rest, many := strings.Cut(text, "\n"); many {
		text = first + ": " + strings.TrimSpace(rest[strings.LastIndexByte(rest, '\n')+1:])
	}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "error" || a.Key == "err" {
			text += ": " + oneLine(fmt.Errorf("%v", a.Value))
		}
		return true
	})
	return text
}

func (p *printedLines) handler(next slog.Handler) slog.Handler {
	return &stdoutHandler{Handler: next, to: p}
}

// stdoutHandler notes the records of a logger that carries the attribute stream=stdout, and those that are complaints.
type stdoutHandler struct {
	slog.Handler
	to     *printedLines
	stdout bool
}

func (h *stdoutHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return h.stdout || l >= slog.LevelWarn || h.Handler.Enabled(ctx, l)
}

func (h *stdoutHandler) Handle(ctx context.Context, r slog.Record) error {
	if h.stdout {
		h.to.mu.Lock()
		h.to.lines = append(h.to.lines, r.Message)
		h.to.mu.Unlock()
	} else if r.Level >= slog.LevelWarn {
		h.to.mu.Lock()
		h.to.complaints = append(h.to.complaints, complaint(r))
		h.to.mu.Unlock()
	}
	if !h.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h *stdoutHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	stdout := h.stdout || lo.SomeBy(attrs, func(a slog.Attr) bool { return a.Key == "stream" && a.Value.String() == "stdout" })
	return &stdoutHandler{Handler: h.Handler.WithAttrs(attrs), to: h.to, stdout: stdout}
}

func (h *stdoutHandler) WithGroup(name string) slog.Handler {
	return &stdoutHandler{Handler: h.Handler.WithGroup(name), to: h.to, stdout: h.stdout}
}

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/samber/lo"
	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/engine/bench"
	"github.com/weir-project/weir/engine/launch"
)

// benchJob is one run of `weir bench`.
type benchJob struct {
	app      *app
	engine   *engine
	flags    benchFlags
	spec     bench.Spec
	expected map[collective.Class]dispatch.Decision // what every backend says, before any rank is started
	progress *progress
	series   []*benchSeries
}

// benchSeries is what one backend, or the cascade, was measured to do.
type benchSeries struct {
	backend string // pinned; "": the cascade chooses
	pids    []int
	cells   []bench.Cell
	refused []benchRefusal
	memory  []bench.Memory
}

func (a *app) runBench(c *cobra.Command, f benchFlags, spec bench.Spec) (err error) {
	e, err := a.open(c, running)
	if err != nil {
		return err
	}
	defer func() { err = firstError(err, e.close()) }()
	e.config.Agent.Socket = "" // that is for other programs' ranks; these have one of their own
	e.ranksOf = agentSocket(e.folder.Path, "")
	j := &benchJob{app: a, engine: e, flags: f, spec: spec}
	j.ask(c.Context())
	pinned, err := j.backends()
	if err != nil {
		return err
	}
	j.progress = newProgress(a.raw.stderr, len(pinned)*spec.Total())
	start := time.Now()
	for _, name := range pinned {
		if err := j.measure(c.Context(), name); err != nil {
			return err
		}
	}
	j.progress.end()
	if err := j.print(start, time.Now()); err != nil {
		return err
	}
	if err := j.nothing(); err != nil {
		return err
	}
	if f.plot != "" {
		if err := j.figure().Save(f.plot); err != nil {
			return err
		}
	}
	if wrong := bench.Wrong(j.cells()); wrong > 0 {
		return fmt.Errorf("%d wrong elements", wrong)
	}
	return nil
}

// nothing says why nothing was measured; nil if something was.
func (j *benchJob) nothing() error {
	if slices.ContainsFunc(j.cells(), func(c bench.Cell) bool { return c.Best() != nil }) {
		return nil
	}
	for _, s := range j.series {
		for _, r := range s.refused {
			return fmt.Errorf("nothing was measured: %s", r.Why)
		}
	}
	return fmt.Errorf("nothing was measured: no backend serves any of the sizes")
}

// measure starts an agent that lets only one backend serve, if one is named, and ranks that measure it.
func (j *benchJob) measure(ctx context.Context, name string) (err error) {
	e, policy, wishes := j.engine, j.engine.policy, j.engine.config.Group
	defer func() { e.policy, e.config.Group = policy, wishes }()
	if name != "" {
		e.config.Group.Deterministic = false // whether it may serve beside the others has been asked; alone it need not serve every size
		for _, c := range e.candidates() {
			if c.Info.Name != name {
				e.policy.Disabled = append(slices.Clone(e.policy.Disabled), c.Info.Name)
			}
		}
	}
	g, err := j.app.listen(ctx, e, j.flags.ranks, true)
	if err != nil {
		return usageError{err}
	}
	defer func() { err = firstError(err, g.Close()) }()
	spec, err := json.Marshal(j.spec)
	if err != nil {
		return err
	}
	s := &benchSeries{backend: name}
	j.series = append(j.series, s)
	r := j.app.ranks(e, g, []string{j.app.exe, benchRankCommand, string(spec)}, j.flags.ranks)
	r.Stdout = &benchLines{take: func(e benchEvent) { j.take(s, e) }}
	r.Stderr = io.Discard // a rank's last words are in the error
	if err := launch.Run(ctx, r); err != nil {
		j.progress.end()
		return err
	}
	return nil
}

// take takes what rank 0 says. In a table of one backend rows appear as they are measured.
func (j *benchJob) take(s *benchSeries, e benchEvent) {
	live := j.flags.format == "text" && !j.flags.all
	j.progress.pause()
	defer j.progress.resume()
	switch {
	case e.PIDs != nil:
		s.pids = e.PIDs
		if live {
			bench.WriteHead(j.app.stdout, j.head(s), j.flags.stepText())
			bench.WriteTitles(j.app.stdout)
		}
	case e.Next != nil:
		j.progress.at(fmt.Sprintf("%s%s of %s %s", lo.Ternary(s.backend == "", "", s.backend+": "), backend.Size(e.Next.Bytes), e.Next.DataType, e.Next.Op))
	case e.Cell != nil:
		s.cells = append(s.cells, *e.Cell)
		j.progress.done(1)
		if live {
			bench.WriteRow(j.app.stdout, *e.Cell, j.flags.ranks)
		}
	case e.Refused != nil:
		s.refused = append(s.refused, *e.Refused)
		for _, c := range j.spec.Cells(e.Refused.Class) {
			s.cells = append(s.cells, c) // a row without figures
			if live {
				bench.WriteRow(j.app.stdout, c, j.flags.ranks)
			}
		}
		j.progress.done(e.Refused.Cells)
	case e.Memory != nil:
		s.memory = e.Memory
	}
}

func (j *benchJob) head(s *benchSeries) bench.Head {
	h := bench.Head{Version: Version, Spec: j.spec, World: j.flags.ranks, Host: hostname(), Cores: runtime.NumCPU(), Backend: s.backend}
	if j.flags.listRanks {
		h.PIDs = s.pids
	}
	if j.flags.all {
		h.Backend = "each in turn: " + strings.Join(j.names(), ", ")
	}
	return h
}

func (j *benchJob) names() []string {
	return lo.Map(j.series, func(s *benchSeries, _ int) string { return s.backend })
}

// cells are those of all series.
func (j *benchJob) cells() []bench.Cell {
	return lo.FlatMap(j.series, func(s *benchSeries, _ int) []bench.Cell { return s.cells })
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}

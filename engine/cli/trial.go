package cli

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/samber/lo"
	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/engine/agent"
	"github.com/weir-project/weir/engine/files"
	"github.com/weir-project/weir/engine/launch"
	"github.com/weir-project/weir/engine/telemetry"
	"github.com/weir-project/weir/sdk/rank"
)

// trials runs libraries and kernels that have not been seen before in processes that are thrown away, one for each rank of a
// group, as those ranks would run them. What has passed is remembered on disk.
type trials struct {
	app    *app
	engine *engine

	mu     sync.Mutex
	number int
	known  map[string]error // outcomes of this run, by key
}

// trialKey is what an outcome depends on.
type trialKey struct {
	Weir    string
	Plan    string
	File    string // of a library, which one that is: size and time of its last change
	Ranges  string
	Class   string
	Shared  bool
	Devices []string // of the ranks: UUID or PCI bus id, and driver
	Links   []string
}

// try says whether a plan works. One at a time: trials would be in each other's way.
func (t *trials) try(ctx context.Context, p plan.Plan, ranges []backend.Range, class collective.Class, g collective.Group) error {
	if p.Kind() == plan.LibraryKind {
		ranges = backend.AllBytes() // it serves them all, whatever is left to it
	}
	key, err := keyOf(p, ranges, class, g)
	if err != nil {
		return &backend.Fault{Code: backend.LibMissing, Rank: backend.AnyRank, Err: err}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	outcome, tried := t.known[key]
	if tried {
		return outcome
	}
	if t.passed(key) {
		return nil
	}
	start := time.Now()
	err = t.run(ctx, onlyPlan{p, ranges}, class, g)
	if ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) { // otherwise nothing was found out
		t.known[key] = err
	}
	if err != nil {
		return err
	}
	t.engine.logger.Debug("tried in throw-away processes", "plan", nameOf(p), "took", time.Since(start))
	t.remember(key)
	return nil
}

// nameOf is a plan in the log.
func nameOf(p plan.Plan) string {
	if l, ok := p.(*plan.Library); ok {
		return l.Path
	}
	return string(p.Kind())
}

func keyOf(p plan.Plan, ranges []backend.Range, class collective.Class, g collective.Group) (string, error) {
	_, _, shared := g.SharedDevice()
	k := trialKey{Weir: Version, Ranges: fmt.Sprint(ranges), Class: class.String(), Shared: shared}
	switch p := p.(type) {
	case *plan.Library:
		info, err := os.Stat(p.Path)
		if err != nil {
			return "", err
		}
		k.Plan, k.File = fmt.Sprintf("%#v", *p), fmt.Sprintf("%d bytes, %s", info.Size(), info.ModTime().UTC().Format(time.RFC3339Nano))
	case *plan.Kernel:
		k.Plan = p.Key()
	default:
		return "", fmt.Errorf("%s plans are not tried apart from the ranks", p.Kind())
	}
	for a, r := range g.Ranks {
		d := lo.FromPtr(r.Device)
		k.Devices = append(k.Devices, lo.CoalesceOrEmpty(d.UUID, d.PCIBusID)+" "+r.Driver)
		for b := range a {
			k.Links = append(k.Links, g.Links[a][b].String())
		}
	}
	text, err := json.Marshal(k)
	return string(text), err
}

// run has as many processes as the group has ranks decide the class, with the plan as the only candidate.
func (t *trials) run(ctx context.Context, p onlyPlan, class collective.Class, g collective.Group) error {
	cfg, n := t.engine.config, g.WorldSize()
	t.number++
	var declined []backend.Reason
	a, err := agent.Listen(agent.Options{
		Socket: filepath.Join(t.engine.folder.Path, fmt.Sprintf("trial-%d.sock", t.number)), WorldSize: n,
		Candidates: func() []dispatch.Candidate {
			return []dispatch.Candidate{{Plugin: "weir", Info: p.Info(), Backend: p}}
		},
		ShareDevices: g.ShareDevices, UnabortableKernels: true, TryAbort: true, MaxShared: int64(cfg.Shared.MaxBytes), JoinDeadline: cfg.Group.JoinDeadline, CallDeadline: cfg.Group.Deadline,
		PrepareDeadline: cfg.Deadlines.Prepare, SelfTestDeadline: cfg.Deadlines.SelfTest, Topology: t.engine.topology,
		Tracer: telemetry.NewTracer(noop.NewTracerProvider()), Logger: t.engine.logger.With("trial", t.number),
		Decided: func(r agent.Resolved) {
			for _, x := range r.Decision.Answers {
				declined = append(declined, x.Verdict.Reasons...)
			}
		},
	})
	if err != nil {
		return err
	}
	defer a.Close()
	text, err := json.Marshal(class)
	if err != nil {
		return err
	}
	r := t.app.ranks(t.engine, a, []string{t.app.exe, trialRankCommand, string(text)}, n)
	environ := r.Environ
	r.Environ = func(rank int) []string {
		return append(environ(rank), deviceVariable(g.Ranks[rank]), "GOTRACEBACK=crash") // to tell a crash by its signal
	}
	r.Stdout, r.Stderr = io.Discard, io.Discard // a rank's last words are in the error
	err = launch.Run(ctx, r)
	_ = a.Close() // so that Decided is not called any more
	if err == nil {
		return nil
	}
	fault := &backend.Fault{Code: backend.SelfTestFailed, Rank: backend.AnyRank, Err: fmt.Errorf("in throw-away processes: %w", err)}
	var failed *launch.RankError
	switch {
	case len(declined) > 0:
		fault.Code, fault.Rank = declined[0].Code, declined[0].Rank
		fault.Err = fmt.Errorf("in throw-away processes: %s", reasonList(backend.Declined(declined...)))
	case errors.As(err, &failed):
		fault.Rank = failed.Exit.Rank
		if failed.Exit.State.ExitCode() < 0 { // killed: its last words are the runtime's view of the registers
			fault.Err = fmt.Errorf("in throw-away processes: %s", failed.Exit)
		}
	case errors.Is(err, context.DeadlineExceeded):
		fault.Code = backend.Timeout
	}
	return fault
}

func deviceVariable(r collective.Rank) string {
	d := lo.FromPtr(r.Device)
	return rank.EnvDevice + "=" + lo.CoalesceOrEmpty(d.UUID, d.PCIBusID)
}

// file is where an outcome is remembered; "" if there is no place for it.
func (t *trials) file(key string) string {
	dir := t.app.cacheDir("trials")
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, fmt.Sprintf("%x.json", sha256.Sum256([]byte(key))))
}

func (t *trials) passed(key string) bool {
	path := t.file(key)
	if path == "" {
		return false
	}
	text, err := files.Read(context.Background(), path, int64(len(key)))
	return err == nil && string(text) == key
}

// remember notes that a plan has passed. If that fails it is tried again the next time.
func (t *trials) remember(key string) {
	path := t.file(key)
	if path == "" {
		return
	}
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(key), 0o600)
	}
	if err != nil {
		t.engine.logger.Debug("the outcome of a trial is not remembered", "error", err)
	}
}

// onlyPlan is a backend that is one plan.
type onlyPlan struct {
	plan   plan.Plan
	ranges []backend.Range // that it serves
}

func (o onlyPlan) Info() backend.Info {
	return backend.Info{Name: "trial", Description: "a plan on trial", Kind: o.plan.Kind()}
}

func (o onlyPlan) Accept(context.Context, backend.Request) (backend.Verdict, error) {
	return backend.Accepted(o.ranges...), nil
}

func (o onlyPlan) Plan(context.Context, backend.Request, []backend.Range) (plan.Plan, error) {
	return o.plan, nil
}

func (o onlyPlan) Release(context.Context, string) error { return nil }

// trialRankCommand is the hidden command that each process of a trial is.
const trialRankCommand = "trial-rank"

func (a *app) trialRank() *cobra.Command {
	return &cobra.Command{
		Use:    trialRankCommand + " CLASS",
		Short:  "Try a plan as one rank (started by weir itself)",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var class collective.Class
			if err := json.Unmarshal([]byte(args[0]), &class); err != nil {
				return usageError{fmt.Errorf("bad class: %w", err)}
			}
			session, err := rank.Join(c.Context(), rank.Options{})
			if err != nil {
				return err
			}
			return errors.Join(session.World().Warm(c.Context(), class), session.Close())
		},
	}
}

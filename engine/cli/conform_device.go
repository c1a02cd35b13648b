package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"

	"github.com/samber/lo"
	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/engine/agent"
	"github.com/weir-project/weir/engine/launch"
	"github.com/weir-project/weir/engine/telemetry"
	"github.com/weir-project/weir/sdk/conformance"
	"github.com/weir-project/weir/sdk/rank"
)

// conformDevices runs plans on this machine's GPUs, with a process for each rank.
type conformDevices struct {
	app    *app
	engine *engine

	mu     sync.Mutex
	number int
}

// conformDevice is nil, with the reason, where there is no GPU.
func (a *app) conformDevice(e *engine) (conformance.Device, string) {
	if len(e.topology.Devices) == 0 {
		return nil, "there is none here"
	}
	return &conformDevices{app: a, engine: e}, ""
}

// Worlds are those that the GPUs are enough for, or else the least one: its ranks share them.
func (d *conformDevices) Worlds(advertised func(int) bool) []int {
	const most = 16
	gpus := len(d.engine.topology.Devices)
	enough := lo.Filter(lo.RangeFrom(1, gpus), func(n, _ int) bool { return advertised(n) && (n > 1 || gpus == 1) })
	least, found := lo.Find(lo.RangeFrom(2, most), advertised)
	if found && (len(enough) == 0 || enough[len(enough)-1] < 2) { // one rank proves little
		enough = append(enough, least)
	}
	return enough
}

// Try has ranks decide the classes one after the other.
func (d *conformDevices) Try(ctx context.Context, b backend.Backend, world int, classes []collective.Class, abort bool) ([]error, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.number++
	cfg := d.engine.config
	shared := world > len(d.engine.topology.Devices)
	outcomes := map[collective.Class]error{}
	var mu sync.Mutex
	g, err := agent.Listen(agent.Options{
		Socket: filepath.Join(d.engine.folder.Path, fmt.Sprintf("conform-%d.sock", d.number)), WorldSize: world,
		Candidates: func() []dispatch.Candidate {
			return []dispatch.Candidate{{Plugin: d.engine.host.Plugins()[0].Name, Info: b.Info(), Backend: b}}
		},
		Deterministic: false, ShareDevices: shared, UnabortableKernels: true, TryAbort: abort, MaxShared: int64(cfg.Shared.MaxBytes),
		JoinDeadline: cfg.Group.JoinDeadline, CallDeadline: cfg.Group.Deadline, PrepareDeadline: cfg.Deadlines.Prepare,
		SelfTestDeadline: cfg.Deadlines.SelfTest, WorkerDeadline: cfg.Deadlines.Worker, Topology: d.engine.topology,
		Tracer: telemetry.NewTracer(noop.NewTracerProvider()), Logger: d.engine.logger,
		Prove: d.app.prove(d.engine, true),
		Decided: func(r agent.Resolved) {
			mu.Lock()
			defer mu.Unlock()
			outcomes[r.Decision.Class] = outcomeOf(r)
		},
	})
	if err != nil {
		return nil, err
	}
	defer g.Close()
	text, err := json.Marshal(classes)
	if err != nil {
		return nil, err
	}
	r := d.app.ranks(d.engine, g, []string{d.app.exe, conformRankCommand, string(text)}, world)
	environ := r.Environ
	r.Environ = func(n int) []string { return append(environ(n), rank.EnvDevice+"=auto") }
	r.Stdout, r.Stderr = io.Discard, io.Discard // a rank's last words are in the error
	err = launch.Run(ctx, r)
	_ = g.Close() // so that Decided is not called any more
	mu.Lock()
	defer mu.Unlock()
	return lo.Map(classes, func(c collective.Class, _ int) error {
		if outcome, decided := outcomes[c]; decided {
			return outcome
		}
		return errors.Join(errors.New("the ranks ended before they had tried it"), err)
	}), nil
}

// outcomeOf tells a plan that ran from a backend that was declined.
func outcomeOf(r agent.Resolved) error {
	if r.Err == nil {
		return nil
	}
	declined := &conformance.Declined{}
	for _, x := range r.Decision.Answers {
		declined.Reasons = append(declined.Reasons, x.Verdict.Reasons...)
	}
	if len(declined.Reasons) == 0 {
		return r.Err
	}
	return declined
}

// conformRankCommand is the hidden command that each rank of a test on GPUs is.
const conformRankCommand = "conform-rank"

func (a *app) conformRank() *cobra.Command {
	return &cobra.Command{
		Use:    conformRankCommand + " CLASSES",
		Short:  "Try a backend as one rank (started by weir itself)",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var classes []collective.Class
			if err := json.Unmarshal([]byte(args[0]), &classes); err != nil {
				return usageError{fmt.Errorf("bad classes: %w", err)}
			}
			session, err := rank.Join(c.Context(), rank.Options{})
			if err != nil {
				return err
			}
			for _, class := range classes {
				_ = session.World().Warm(c.Context(), class) // the agent knows what came of it
			}
			return session.Close()
		},
	}
}

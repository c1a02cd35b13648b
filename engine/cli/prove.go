package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/samber/lo"
	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/engine/discover"
	"github.com/weir-project/weir/engine/p2p"
)

// live is this machine, with what was proved of its peer-to-peer access since it started.
func (a *app) live() topology.Graph {
	g := discover.Live()
	if len(g.Devices) < 2 {
		return g
	}
	return g.WithProofs(a.proofs().Load(stateOf(g)))
}

func stateOf(g topology.Graph) p2p.State {
	return p2p.StateOf(Version, discover.Driver(), discover.Boot(), g.Devices)
}

// proofs is where what was proved is remembered.
func (a *app) proofs() p2p.Cache { return p2p.Cache{Dir: a.cacheDir("p2p")} }

// cacheDir is the folder for one kind of thing to remember; "" if there is no place for it.
func (a *app) cacheDir(kind string) string {
	dir := a.getenv("XDG_CACHE_HOME")
	if home := a.getenv("HOME"); dir == "" && home != "" {
		dir = filepath.Join(home, ".cache")
	}
	if !filepath.IsAbs(dir) {
		return ""
	}
	return filepath.Join(dir, "weir", kind)
}

// proofOptions have each GPU's part done by this program, in a process of its own.
func (a *app) proofOptions() p2p.Options {
	return p2p.Options{Command: []string{a.exe, p2pWorkerCommand}, Environ: a.withoutRankVariables()}
}

// sayAfter is how long a proof may take before it is said why nothing else happens.
const sayAfter = 2 * time.Second

// groupPatience is how long a group may be kept waiting for a proof: ranks wait for two minutes, and a trial may follow.
const groupPatience = 45 * time.Second

// prove has some directions tried for a group that asks for it, and remembers what was found.
func (a *app) prove(e *engine, quiet bool) func(context.Context, []topology.Device, []p2p.Direction) []topology.Proof {
	return func(ctx context.Context, devices []topology.Device, directions []p2p.Direction) []topology.Proof {
		start := time.Now()
		if !quiet {
			say := time.AfterFunc(sayAfter, func() {
				fmt.Fprintf(a.stderr, "weir: proving peer-to-peer access between %d GPUs, %d directions (once; p2p.verify=off leaves it to `weir doctor`)\n", len(devices), len(directions))
			})
			defer say.Stop()
		}
		opts := a.proofOptions()
		opts.Overall = groupPatience
		opts.Started, opts.Ended = e.reaper.Track, e.reaper.Forget
		results := p2p.Verify(ctx, devices, directions, opts)
		proofs := proofsOf(results, devices)
		for _, r := range results {
			if r.Found != topology.P2PVerified {
				e.logger.Warn("peer-to-peer access was not proved", "from", devices[r.From].Identity(), "to", devices[r.To].Identity(), "found", r.Found.String(), "reason", r.Why)
			}
		}
		e.logger.Debug("tried peer-to-peer access", "directions", len(directions), "found", len(proofs), "took", time.Since(start))
		if err := a.proofs().Store(stateOf(e.topology), proofs); err != nil {
			e.logger.Debug("what was proved is not remembered", "error", err)
		}
		return proofs
	}
}

func proofsOf(results []p2p.Result, devices []topology.Device) []topology.Proof {
	return lo.FilterMap(results, func(r p2p.Result, _ int) (topology.Proof, bool) { return r.Proof(devices) })
}

// p2pWorkerCommand is the hidden command that each process of a proof is.
const p2pWorkerCommand = "p2p-worker"

func (a *app) p2pWorker() *cobra.Command {
	return &cobra.Command{
		Use:    p2pWorkerCommand,
		Short:  "Do one GPU's part in a proof of peer-to-peer access (started by weir itself)",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			const socket = 3
			return p2p.Serve(os.NewFile(socket, "socket"))
		},
	}
}

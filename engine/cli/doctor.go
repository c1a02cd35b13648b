package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/diagnose"
	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/engine/discover"
	"github.com/weir-project/weir/engine/p2p"
)

// notGood is the outcome of `weir doctor` on a machine where something failed or could not be tried. What has been printed.
type notGood struct{ failed, untried int }

func (n notGood) Error() string {
	if n.failed > 0 {
		return fmt.Sprintf("peer-to-peer access failed in %d directions", n.failed)
	}
	return fmt.Sprintf("peer-to-peer access could not be tried in %d directions", n.untried)
}

func (a *app) doctor() *cobra.Command {
	var format string
	var deadline time.Duration
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Prove that the GPUs of this machine reach each other's memory, and say what to change where they do not",
		Long: `Have each GPU write into the memory of each other, with kernels and with copies, and have the other look at what came:
a driver that reports peer-to-peer access is no proof that data arrives, or arrives right. Each GPU has a process of its
own, which is thrown away, and a deadline. What is found is remembered until the machine starts again: weir run, agent,
explain and topo go by it. weir doctor tries anew each time.

Exit codes: 0 every direction that the driver reports was proved (or there is nothing to prove); 1 something failed or could
not be tried; 2 the command line is wrong; 130 ended by SIGINT, 143 by SIGTERM.`,
		Example: "  weir doctor\n  sudo weir doctor            # sees ACS on the bridges too\n  weir doctor --format json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if format != "text" && format != "json" {
				return badFormat(format)
			}
			if deadline <= 0 {
				return usageError{fmt.Errorf("--deadline: %s; give a time such as 2m", deadline)}
			}
			x, err := a.examine(c.Context(), deadline)
			if err != nil {
				return err
			}
			write := x.text
			if format == "json" {
				write = x.json
			}
			if err := write(a.stdout); err != nil {
				return err
			}
			if x.tried.Failed+x.tried.Untried > 0 {
				return notGood{x.tried.Failed, x.tried.Untried}
			}
			return nil
		},
	}
	formatFlag(c, &format)
	c.Flags().DurationVar(&deadline, "deadline", 2*time.Minute, "longest `time` that all directions together may take")
	return c
}

// examination is what `weir doctor` found.
type examination struct {
	machine   topology.Graph
	results   []p2p.Result // of every direction
	tried     diagnose.Tried
	obstacles diagnose.Obstacles
	findings  []diagnose.Finding
}

// examine tries every direction that the driver does not refuse, and remembers what was found in the place of all that was.
func (a *app) examine(ctx context.Context, deadline time.Duration) (x examination, err error) {
	x.machine = discover.Live()
	sysfs := os.DirFS("/sys")
	x.obstacles = discover.Obstacles(sysfs, x.machine)
	x.results = untried(x.machine)
	var directions []p2p.Direction
	for _, r := range x.results {
		if r.Found == topology.P2PUnknown && r.Why == "" {
			directions = append(directions, r.Direction)
		}
	}
	if len(directions) > 0 {
		a.ending.needs(askedPatience) // until the processes that try are gone
		opts := a.proofOptions()
		opts.Overall, opts.Progress = deadline, a.progress()
		found := p2p.Verify(ctx, x.machine.Devices, directions, opts)
		if ctx.Err() != nil {
			return x, context.Cause(ctx)
		}
		for _, r := range found {
			x.results[slices.IndexFunc(x.results, func(y p2p.Result) bool { return y.Direction == r.Direction })] = r
		}
		if err := a.proofs().Replace(stateOf(x.machine), proofsOf(found, x.machine.Devices)); err != nil {
			fmt.Fprintf(a.stderr, "weir: what was found is not remembered: %s\n", err)
		}
	}
	for _, r := range x.results {
		switch r.Found {
		case topology.P2PVerified:
			x.tried.Verified++
		case topology.P2PFailed:
			x.tried.Failed++
		case topology.P2PNone:
			x.tried.Refused++
		default:
			x.tried.Untried++
		}
	}
	x.findings = diagnose.Doctor(x.tried, x.obstacles)
	return x, nil
}

// untried are all directions of a machine, with what needs no try.
func untried(g topology.Graph) []p2p.Result {
	var all []p2p.Result
	for _, d := range p2p.Directions(len(g.Devices)) {
		r := p2p.Result{Direction: d}
		from, to := g.Devices[d.From], g.Devices[d.To]
		switch e := topology.PeerAt(g.Peers, d.From, d.To); {
		case foreignMaker(from) || foreignMaker(to):
			r.Why = "only GPUs of NVIDIA can be tried"
		case e.Access() == topology.P2PNone:
			r.Found, r.Why = topology.P2PNone, refusal(e)
		}
		all = append(all, r)
	}
	return all
}

func foreignMaker(d topology.Device) bool {
	v := topology.VendorOf(d.Name)
	return v != "" && v != "nvidia"
}

// refusal is the driver's word for why.
func refusal(p topology.Peer) string {
	for _, s := range []topology.Status{p.Read, p.Write, p.Any} {
		if s.Known() && s != topology.StatusOK {
			return string(s)
		}
	}
	return ""
}

func (a *app) progress() func(done, all int) {
	last := time.Now()
	return func(done, all int) {
		if done < all && time.Since(last) > progressEvery {
			last = time.Now()
			fmt.Fprintf(a.stderr, "weir: %d of %d directions tried\n", done, all)
		}
	}
}

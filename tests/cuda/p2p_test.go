package cuda

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/engine/agent"
	"github.com/weir-project/weir/engine/p2p"
	"github.com/weir-project/weir/sdk/rank"
	"github.com/weir-project/weir/tests/harness"
	"github.com/weir-project/weir/tests/ondevice"
)

// fakeMachine is the fake driver's GPUs, of which it says that all reach each other.
func fakeMachine(n int) topology.Graph {
	g := topology.Uniform(n, topology.Link{Class: topology.PIX}, func(i int) topology.Device {
		return topology.Device{Index: i, UUID: fmt.Sprintf("GPU-%02xfafafa-fafa-fafa-fafa-fafafafafafa", i)}
	})
	g.Peers = make([][]topology.Peer, n)
	for a := range n {
		g.Peers[a] = make([]topology.Peer, n)
		for b := range n {
			g.Peers[a][b] = topology.Peer{Any: topology.StatusOK}
		}
	}
	g.P2P = topology.Access(g.Peers, n)
	return g
}

// prover proves with weir's own workers, and counts the directions that it was asked for.
type prover struct {
	mu    sync.Mutex
	calls []int
}

func (p *prover) prove(t *testing.T, n int, fault string) func(context.Context, []topology.Device, []p2p.Direction) []topology.Proof {
	return func(ctx context.Context, devices []topology.Device, directions []p2p.Direction) []topology.Proof {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.calls = append(p.calls, len(directions))
		results := p2p.Verify(ctx, devices, directions, p2p.Options{
			Command: []string{filepath.Join(harness.Bin, "weir"), "p2p-worker"},
			Environ: []string{"LD_LIBRARY_PATH=" + harness.FakeLibraries(t), fmt.Sprintf("FAKE_CUDA_DEVICES=%d", n), "FAKE_P2P=" + fault},
		})
		return lo.FilterMap(results, func(r p2p.Result, _ int) (topology.Proof, bool) { return r.Proof(devices) })
	}
}

// pushing is a backend that needs peer-to-peer access proved, before one that does not.
func pushing(t *testing.T) []dispatch.Candidate {
	t.Helper()
	of := func(name string, priority int, needs topology.P2P) dispatch.Candidate {
		c := library(harness.FakeNCCL(t), "2.28.9")
		c.Info.Name, c.Info.Priority = name, priority
		c.Info.Requirements.P2P = needs
		return c
	}
	return []dispatch.Candidate{of("push", 2, topology.P2PVerified), of("staged", 1, topology.P2PUnknown)}
}

// TestProofOnDemand has peer-to-peer access proved when the first group asks for it, once.
func TestProofOnDemand(t *testing.T) {
	const refused = "push: decline; P2P_VERIFY_FAILED: failed, needs verified (rank 2 into the memory of rank 0: wrong data: 1 of 4096 B, "
	for name, c := range map[string]struct {
		fault, whole, pair string // the verdict on push, of all ranks and of ranks 0 and 1
	}{
		"good":              {"", "push: accept all sizes", "push: accept all sizes"},
		"one direction bad": {"wrong:2>0", refused, "push: accept all sizes"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &prover{}
			j := harness.StartAgent(t, 3, func(o *agent.Options) { o.Topology, o.Prove = fakeMachine(3), p.prove(t, 3, c.fault) }, pushing(t)...)
			harness.NoErrors(t, j.EachDevice(t, 3, func(s *rank.Session, d *ondevice.Program) error {
				g := s.World()
				half := collective.Class{Memory: collective.CUDA, DataType: collective.Float16, Op: collective.Sum}
				if err := errors.Join(g.Warm(t.Context(), harness.CUDASum), g.Warm(t.Context(), half)); err != nil {
					return err
				}
				if g.Rank() > 1 {
					return nil
				}
				sub, err := s.NewGroup(t.Context(), []int{0, 1})
				if err != nil {
					return err
				}
				return sub.Warm(t.Context(), harness.CUDASum)
			}))
			var got []string
			for _, r := range j.Decided() {
				a := r.Decision.Answers[0]
				got = append(got, fmt.Sprintf("%s: %s", a.Backend, a.Verdict))
			}
			for i, want := range []string{c.whole, c.whole, c.pair} {
				if len(got) != 3 || !strings.HasPrefix(got[i], want) {
					t.Fatalf("decisions\n%s\nwant in place %d\n%s", strings.Join(got, "\n"), i, want)
				}
			}
			if len(p.calls) != 1 || p.calls[0] != 6 {
				t.Errorf("asked to prove %v directions, want 6, once", p.calls)
			}
		})
	}
}

// TestProofNotNeeded asks for no proof where nobody would be served by it, and says what to run where it is switched off.
func TestProofNotNeeded(t *testing.T) {
	unknown := fakeMachine(2)
	unknown.Peers, unknown.P2P = nil, topology.P2PUnknown
	for name, c := range map[string]struct {
		change func(o *agent.Options)
		want   string
	}{
		"off":      {func(o *agent.Options) { o.Prove = nil }, "decline; PROBE_UNAVAILABLE: peer-to-peer access reported, proof unknown, needs verified (`weir doctor` on the machine finds out)"},
		"unknown":  {func(o *agent.Options) { o.Topology = unknown }, "decline; PROBE_UNAVAILABLE: peer-to-peer access unknown, needs verified (`weir doctor` on the machine finds out)"},
		"disabled": {func(o *agent.Options) { o.Policy.Disabled = []string{"push"} }, "decline; DISABLED_BY_USER"},
		"declines anyway": {func(o *agent.Options) {
			all := o.Candidates()
			all[0].Info.Requirements.WorldSizes = backend.Exactly(8)
			o.Candidates = func() []dispatch.Candidate { return all }
		}, "decline; WORLD_SIZE: 2, needs 8"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &prover{}
			j := harness.StartAgent(t, 2, func(o *agent.Options) {
				o.Topology, o.Prove = fakeMachine(2), p.prove(t, 2, "")
				c.change(o)
			}, pushing(t)...)
			harness.NoErrors(t, j.EachDevice(t, 2, func(s *rank.Session, _ *ondevice.Program) error { return s.World().Warm(t.Context(), harness.CUDASum) }))
			v := j.Decided()[0].Decision.Answers[0].Verdict.String()
			if !strings.HasPrefix(v, c.want) {
				t.Errorf("got %s, want %s", v, c.want)
			}
			if len(p.calls) != 0 {
				t.Errorf("asked to prove %v directions", p.calls)
			}
		})
	}
	shared := fakeMachine(1)
	p := &prover{}
	j := harness.StartAgent(t, 2, func(o *agent.Options) { o.Topology, o.Prove, o.ShareDevices = shared, p.prove(t, 1, ""), true }, pushing(t)...)
	t.Setenv("WEIR_DEVICE", "0")
	harness.NoErrors(t, j.Each(t, 2, func(s *rank.Session) error { return s.World().Warm(t.Context(), harness.CUDASum) }))
	if v := j.Decided()[0].Decision.Answers[0].Verdict; v.Kind != backend.Accept || len(p.calls) != 0 {
		t.Errorf("two ranks on one GPU: %s, asked to prove %v", v, p.calls)
	}
}

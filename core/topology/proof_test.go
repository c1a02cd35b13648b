package topology_test

import (
	"fmt"
	"testing"

	"github.com/weir-project/weir/core/topology"
)

// reported is n GPUs of which the driver says that all reach each other.
func reported(n int) topology.Graph {
	g := topology.Uniform(n, topology.Link{Class: topology.PIX}, func(i int) topology.Device {
		return topology.Device{Index: i, UUID: fmt.Sprintf("GPU-%d", i), PCIBusID: fmt.Sprintf("0000:0%d:00.0", i)}
	})
	g.Peers = make([][]topology.Peer, n)
	for a := range n {
		g.Peers[a] = make([]topology.Peer, n)
		for b := range n {
			if a != b {
				g.Peers[a][b] = topology.Peer{Read: topology.StatusOK, Write: topology.StatusOK}
			}
		}
	}
	g.P2P = topology.Access(g.Peers, n)
	return g
}

func proof(a, b int, result topology.P2P, why string) topology.Proof {
	return topology.Proof{From: fmt.Sprintf("GPU-%d", a), To: fmt.Sprintf("GPU-%d", b), Result: result, Why: why}
}

func proofs(n int, of func(a, b int) topology.P2P) []topology.Proof {
	var all []topology.Proof
	for a := range n {
		for b := range n {
			if r := of(a, b); a != b && r != topology.P2PUnknown {
				all = append(all, proof(a, b, r, ""))
			}
		}
	}
	return all
}

func TestWithProofs(t *testing.T) {
	all := func(int, int) topology.P2P { return topology.P2PVerified }
	but := func(r topology.P2P) func(a, b int) topology.P2P {
		return func(a, b int) topology.P2P {
			if a == 2 && b == 0 {
				return r
			}
			return topology.P2PVerified
		}
	}
	refused := reported(3)
	refused.Peers[0][1].Write = topology.StatusCNS
	refused.P2P = topology.P2PNone
	silent := topology.Uniform(3, topology.Link{}, func(i int) topology.Device { return reported(3).Devices[i] })
	for name, c := range map[string]struct {
		graph  topology.Graph
		proofs []topology.Proof
		want   topology.P2P
	}{
		"nothing":                               {reported(3), nil, topology.P2PReported},
		"every direction":                       {reported(3), proofs(3, all), topology.P2PVerified},
		"one was not tried":                     {reported(3), proofs(3, but(topology.P2PUnknown)), topology.P2PReported},
		"one failed":                            {reported(3), proofs(3, but(topology.P2PFailed)), topology.P2PFailed},
		"one CUDA refuses":                      {reported(3), proofs(3, but(topology.P2PNone)), topology.P2PNone},
		"what the driver refuses":               {refused, proofs(3, all), topology.P2PNone},
		"of which nothing is said":              {silent, proofs(3, all), topology.P2PVerified},
		"of which nothing is said, one missing": {silent, proofs(3, but(topology.P2PUnknown)), topology.P2PUnknown},
		"of other devices":                      {silent, []topology.Proof{{From: "GPU-7", To: "GPU-0", Result: topology.P2PVerified}}, topology.P2PUnknown},
	} {
		if got := c.graph.WithProofs(c.proofs).P2P; got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	g := reported(3)
	g.WithProofs(proofs(3, all))
	if g.P2P != topology.P2PReported || g.Peers[0][1].Proof != "" {
		t.Error("the graph itself was changed")
	}
}

// TestEvidence has pairs judged by what was found of them alone.
func TestEvidence(t *testing.T) {
	g := reported(3).WithProofs([]topology.Proof{
		proof(0, 1, topology.P2PVerified, ""), proof(1, 0, topology.P2PVerified, ""), proof(0, 2, topology.P2PFailed, "nothing came"),
	})
	d := g.Devices
	onlyBus := topology.Device{PCIBusID: d[1].PCIBusID}
	for _, c := range []struct {
		a, b topology.Device
		want topology.P2P
		why  string
	}{
		{d[0], d[1], topology.P2PVerified, ""},
		{d[0], onlyBus, topology.P2PVerified, ""},
		{d[0], d[2], topology.P2PFailed, "nothing came"},
		{d[2], d[0], topology.P2PReported, ""},
		{d[2], d[2], topology.P2PVerified, ""},
		{d[0], topology.Device{UUID: "GPU-9"}, topology.P2PUnknown, ""},
	} {
		if got, why := g.Evidence(c.a, c.b); got != c.want || why != c.why {
			t.Errorf("%s to %s: %s (%s), want %s (%s)", c.a.Identity(), c.b.Identity(), got, why, c.want, c.why)
		}
	}
	sub, err := g.Sub([]int{0, 1})
	if err != nil || g.P2P != topology.P2PFailed || sub.P2P != topology.P2PVerified {
		t.Errorf("all %s, the good pair %s, %v", g.P2P, sub.P2P, err)
	}
	told := topology.Uniform(2, topology.Link{Class: topology.NVLink}, func(i int) topology.Device { return d[i] })
	told.P2P = topology.P2PReported // of a source that knows no pairs
	if got, _ := told.Evidence(d[0], d[1]); got != topology.P2PReported {
		t.Errorf("of the whole machine: %s", got)
	}
	silent := told
	silent.P2P = topology.P2PUnknown
	if got, _ := silent.WithProofs([]topology.Proof{proof(0, 1, topology.P2PFailed, "")}).Evidence(d[1], d[0]); got != topology.P2PUnknown {
		t.Errorf("a pair that was not tried, beside one that failed: %s", got)
	}
}

package topology

import "slices"

// Proof is what was found when one GPU wrote into the memory of another.
type Proof struct {
	From   string `json:"from"`          // identity of the device that wrote, as Device.Identity
	To     string `json:"to"`            // of the one whose memory it is
	Result P2P    `json:"result"`        // verified, failed, or none: CUDA refused
	Why    string `json:"why,omitempty"` // what was observed, in the case of another result than verified
}

// Identity is what a device is known by: its UUID, or else its bus id; "" if neither is known.
func (d Device) Identity() string {
	if d.UUID != "" {
		return d.UUID
	}
	return d.PCIBusID
}

// WithProofs is the graph with what was found between its devices, in the place of what was found before. Proofs about
// other devices are left out.
func (g Graph) WithProofs(proofs []Proof) Graph {
	n := len(g.Devices)
	derived := g.Peers == nil && g.P2P == P2PUnknown || g.Peers != nil && g.P2P == Access(g.Peers, n)
	peers := among(allOf(n), func(p, q int) Peer { return peerAt(g.Peers, p, q) })
	found := g.Peers != nil
	for _, p := range proofs {
		a, b := g.named(p.From), g.named(p.To)
		if a >= 0 && b >= 0 && a != b {
			peers[a][b].Proof, peers[a][b].Why = p.Result, p.Why
			found = true
		}
	}
	if !found {
		return g
	}
	g.Peers = peers
	if access := Access(peers, n); derived || access == P2PFailed || access == P2PVerified {
		g.P2P = access
	}
	return g
}

// Evidence is what is known of the access of the device with identity a to the memory of that with identity b, and what
// was observed. A device reaches its own memory. What the graph holds of the whole machine holds for a pair of it.
func (g Graph) Evidence(a, b Device) (P2P, string) {
	if a.Same(b) {
		return P2PVerified, ""
	}
	i, j := g.Find(a), g.Find(b)
	if i < 0 || j < 0 {
		return P2PUnknown, ""
	}
	p := peerAt(g.Peers, i, j)
	if e := p.Evidence(); e != P2PUnknown {
		return e, p.Why
	}
	if g.Peers == nil || g.P2P == P2PReported || g.P2P == P2PVerified { // else it is of other pairs
		return g.P2P, ""
	}
	return P2PUnknown, ""
}

// Find is the position of a device by its UUID or bus id; -1 if it is not there.
func (g Graph) Find(d Device) int {
	return slices.IndexFunc(g.Devices, func(e Device) bool {
		return d.UUID != "" && d.UUID == e.UUID || d.PCIBusID != "" && d.PCIBusID == e.PCIBusID
	})
}

func (g Graph) named(identity string) int {
	return slices.IndexFunc(g.Devices, func(d Device) bool { return identity != "" && (d.UUID == identity || d.PCIBusID == identity) })
}

func allOf(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

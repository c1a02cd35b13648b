package topology

// P2P is how much is known of peer-to-peer access between GPUs.
type P2P string

// The evidence, from nothing to proof. Reported means that the driver says it works; verified means that data was
// written by one GPU, read by the other and found right; failed that this was tried and went wrong, whatever the driver
// says.
const (
	P2PUnknown  P2P = ""
	P2PNone     P2P = "none"
	P2PFailed   P2P = "failed"
	P2PReported P2P = "reported"
	P2PVerified P2P = "verified"
)

func (p P2P) String() string {
	if p == P2PUnknown {
		return "unknown"
	}
	return string(p)
}

// Status is what the driver says of one capability of peer-to-peer access, in the words of `nvidia-smi topo -p2p`.
type Status string

// The statuses; the zero value is that nothing was said. StatusUnknown is the driver's own "unknown".
const (
	StatusOK      Status = "OK"
	StatusCNS     Status = "CNS" // chipset not supported
	StatusGNS     Status = "GNS" // GPU not supported
	StatusTNS     Status = "TNS" // topology not supported
	StatusNS      Status = "NS"  // not supported
	StatusDR      Status = "DR"  // disabled by a registry key
	StatusUnknown Status = "U"
)

// Known reports whether the driver gave an answer.
func (s Status) Known() bool { return s != "" && s != StatusUnknown }

// Peer is what is known of one GPU's access to another's memory.
type Peer struct {
	Proof P2P    // what was found when it was tried: verified, failed, or none where CUDA refused; "" if it was not
	Why   string // beside Proof: what was observed; "" if there is nothing to say

	Any     Status // of a source that does not say which capability it shows
	Read    Status
	Write   Status
	NVLink  Status
	Atomics Status
	PCI     Status // the "prop" capability
}

// Evidence is the most that is known: what was found when it was tried, or else the driver's word. What the driver
// refuses is none, whatever was found.
func (p Peer) Evidence() P2P {
	if access := p.Access(); p.Proof == P2PUnknown || access == P2PNone {
		return access
	}
	return p.Proof
}

// Access is the driver's word on reads and writes: none if one of them is refused, reported if neither is and one is granted.
func (p Peer) Access() P2P {
	access := P2PUnknown
	for _, s := range []Status{p.Any, p.Read, p.Write} {
		switch {
		case s == StatusOK:
			access = P2PReported
		case s.Known():
			return P2PNone
		}
	}
	return access
}

// strength orders the evidence; of several pairs the weakest holds for all.
var strength = map[P2P]int{P2PNone: 0, P2PFailed: 1, P2PUnknown: 2, P2PReported: 3, P2PVerified: 4}

// Weaker is the weaker of two pieces of evidence.
func (p P2P) Weaker(q P2P) P2P {
	if strength[q] < strength[p] {
		return q
	}
	return p
}

// Access is the evidence for peer-to-peer access between every two of n devices: none if a pair is known to lack it,
// failed if one was tried in vain, unknown if a pair is not known or there is no pair. peers[a][b] is what a may do in
// b's memory.
func Access(peers [][]Peer, n int) P2P {
	if n < 2 {
		return P2PUnknown
	}
	access := P2PVerified
	for a := range n {
		for b := range n {
			if a != b {
				access = access.Weaker(peerAt(peers, a, b).Evidence())
			}
		}
	}
	return access
}

// PeerAt is what is known of a's access to b; the zero Peer if peers does not hold it.
func PeerAt(peers [][]Peer, a, b int) Peer { return peerAt(peers, a, b) }

func peerAt(peers [][]Peer, a, b int) Peer {
	if a >= len(peers) || b >= len(peers[a]) {
		return Peer{}
	}
	return peers[a][b]
}

package collective

import (
	"fmt"

	"github.com/weir-project/weir/core/topology"
)

// Rank is what one rank brought when it joined.
type Rank struct {
	PID       int              // process id on its host; 0 for a hypothetical rank
	Host      string           // name of its host; "" means the agent's
	Device    *topology.Device // nil for a rank without a GPU
	Driver    string           // CUDA driver version such as "570.86.10"; "" if there is none
	Libraries []Library        // collective libraries already loaded in the process
	NUMA      string           // NUMA node of every core that the process may use; "" if they are of several, or it is not known
}

// Library is a shared library found in a rank.
type Library struct {
	Name    string // such as "nccl"
	Path    string
	Version string // such as "2.28.9"
}

// Group is the facts about a group of ranks that a backend decides on. It is a value: nobody changes it once made.
type Group struct {
	ID    string
	Ranks []Rank            // by rank of this group
	Links [][]topology.Link // Links[a][b] is the link between ranks a and b; the diagonal is unused

	P2P       topology.P2P // what is known of peer-to-peer access between every two of its GPUs
	P2PDetail string       // with P2P failed: which ranks, and what was observed; "" if that is not known
	Multicast topology.Answer
	Cores     int    // CPU cores that the ranks of this host may use; 0 if not known
	Platform  string // such as "linux/amd64"; "" if not known

	// Alignment is the multiple of bytes at which every buffer is promised to begin; 0 promises the element size only.
	// Alignment and Placement are promises of the group and not looked up per call: pointers are each rank's own, and
	// a choice that depends on them would differ between ranks.
	Alignment int
	Placement Placement

	InFlight      int  // calls that the group wants in flight at once; 0 means 1
	Deterministic bool // the group wants the same bits in every run
	ShareDevices  bool // several ranks may be on one GPU: a test arrangement, and slow
}

// Placement is what a group promises of its calls' buffers.
type Placement string

// The placements.
const (
	AnyPlacement Placement = "" // some calls may be in place, others not
	InPlace      Placement = "in_place"
	OutOfPlace   Placement = "out_of_place"
)

// MaxWorldSize is the most ranks of a group. What is known of a group grows with the square of it, and is given to every plugin.
const MaxWorldSize = 1024

// CheckWorldSize says why there can be no group of n ranks.
func CheckWorldSize(n int) error {
	if n < 1 || n > MaxWorldSize {
		return fmt.Errorf("%d ranks; give 1 to %d", n, MaxWorldSize)
	}
	return nil
}

// WorldSize is the number of ranks.
func (g Group) WorldSize() int { return len(g.Ranks) }

// Worst is the slowest link between two ranks; the zero Link (unknown) for a group of one.
func (g Group) Worst() topology.Link { return topology.Worst(g.Links) }

// FullNVLink says whether every two ranks are connected by NVLink.
func (g Group) FullNVLink() topology.Answer { return topology.FullNVLink(g.Links) }

// Hosts is the number of different hosts.
func (g Group) Hosts() int {
	hosts := map[string]bool{}
	for _, r := range g.Ranks {
		hosts[r.Host] = true
	}
	return len(hosts)
}

// SharedDevice is two ranks of the group that are on one GPU; ok is false if each has its own, as far as is known.
func (g Group) SharedDevice() (a, b int, ok bool) {
	for b := range g.Ranks {
		for a := range b {
			if x, y := g.Ranks[a], g.Ranks[b]; x.Host == y.Host && x.Device != nil && y.Device != nil && x.Device.Same(*y.Device) {
				return a, b, true
			}
		}
	}
	return 0, 0, false
}

// HostGroup is the facts of n ranks without GPUs on one host.
func HostGroup(id string, n int) Group {
	g := Group{ID: id, Ranks: make([]Rank, n), Links: make([][]topology.Link, n)}
	for a := range g.Links {
		g.Links[a] = make([]topology.Link, n)
		for b := range g.Links[a] {
			if a != b {
				g.Links[a][b] = topology.Link{Class: topology.HostMemory}
			}
		}
	}
	return g
}

// Validate checks that there is a rank and that Links is square.
func (g Group) Validate() error {
	if len(g.Ranks) == 0 {
		return fmt.Errorf("group %q has no ranks", g.ID)
	}
	if len(g.Links) != len(g.Ranks) {
		return fmt.Errorf("group %q: %d ranks but %d rows of links", g.ID, len(g.Ranks), len(g.Links))
	}
	for i, row := range g.Links {
		if len(row) != len(g.Ranks) {
			return fmt.Errorf("group %q: row %d has %d links for %d ranks", g.ID, i, len(row), len(g.Ranks))
		}
	}
	return nil
}

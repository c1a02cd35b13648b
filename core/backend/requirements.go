package backend

import (
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/topology"
)

// Requirements is what a backend needs, as data: the engine checks it without a call, and shows it for any machine. The
// zero value of a field requires nothing.
type Requirements struct {
	WorldSizes   []Span                // numbers of ranks
	Memories     []collective.Memory   // where the buffers lie
	DataTypes    []collective.DataType // element types
	Ops          []collective.Op       // reduce ops
	Scope        Scope                 // how far the ranks may be apart
	NUMANodes    int                   // least number of NUMA nodes of one host that the ranks are bound to, each rank to one; 0 and 1 require nothing
	Links        []topology.Class      // classes that the link of every pair must be of
	LinksFrom    int                   // Links is asked of groups of this many ranks or more; 0 and 2: of all
	P2P          topology.P2P          // least evidence of peer-to-peer access between every pair, or P2PAssumed
	Multicast    bool                  // NVLink multicast
	Vendors      []string              // of the GPUs, as topology.Device.Vendor
	Capabilities []string              // compute capabilities: "9.0", "9.x" for all of 9, "8.0+" for that and newer, "8.9-" for that and older
	Platforms    []string              // such as "linux/amd64"
	Driver       string                // oldest CUDA driver, such as "550"
	Libraries    []collective.Library  // Name and oldest Version that every rank needs to have loaded
	Windows      []Window              // byte counts served; none means all
	Multiple     int64                 // the byte count must be a multiple of this
	Alignment    int                   // buffers must begin at a multiple of this many bytes
	Placement    collective.Placement  // in place or out of place only
	Modes        []Mode                // eager or captured
	Registered   bool                  // buffers that the group allocated, so that every rank can reach those of all
	InFlight     int                   // most calls of one group in flight at once

	// Deterministic is a promise rather than a need: equal inputs give the same bits on every rank and in every run.
	Deterministic bool

	// Order names the order in which a Deterministic backend adds every element, whatever the message's size and the element's
	// place in it; "": one of its own. Backends of one order may share the sizes of a group that asks for determinism.
	Order Order
}

// Order is an order of addition.
type Order string

// RankOrder is that of the ranks, from 0 on: types of 16 bits in float32, the others in their own, rounded once.
const RankOrder Order = "rank"

// Span is the whole numbers from Min to Max, both included.
type Span struct{ Min, Max int }

// Contains reports whether n lies in the span.
func (s Span) Contains(n int) bool { return s.Min <= n && n <= s.Max }

// Exactly is a span for each of the numbers.
func Exactly(n ...int) []Span {
	spans := make([]Span, len(n))
	for i, v := range n {
		spans[i] = Span{v, v}
	}
	return spans
}

// Scope is how far apart ranks may be.
type Scope string

// The scopes.
const (
	AnyScope  Scope = ""
	OneHost   Scope = "one_host"
	OneClique Scope = "one_nvlink_clique" // every pair of GPUs connected by NVLink, on one host
	OneFabric Scope = "one_nvlink_fabric" // one host, or hosts whose GPUs share one NVLink fabric (cluster and clique id)
)

// P2PAssumed as Requirements.P2P is met unless peer-to-peer access is known to be absent: for backends that use it
// without having asked.
const P2PAssumed topology.P2P = "assumed"

// Mode is how a call is made.
type Mode string

// The modes.
const (
	Eager    Mode = "eager"
	Captured Mode = "captured"
)

// Window is a range of byte counts for some groups. Its zero-valued keys match every group.
type Window struct {
	Capability string         // as in Requirements.Capabilities
	Link       topology.Class // of the group's slowest link; the zero class: every link
	WorldSizes Span           // the zero Span: every number of ranks
	DataType   *collective.DataType
	Mode       Mode
	Range      Range
	Unmeasured bool // the range is a guess for this kind of machine
}

package backend_test

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/topology"
)

// gpus is a request of n ranks on NVLink about which everything is known.
func gpus(n int, change ...func(*backend.Request)) backend.Request {
	g := collective.HostGroup("g", n)
	for a := range n {
		g.Ranks[a] = collective.Rank{
			PID: 100 + a, Driver: "570.86.10",
			Device:    &topology.Device{Index: a, Vendor: "nvidia", Capability: "9.0"},
			Libraries: []collective.Library{{Name: "nccl", Path: "/lib/libnccl.so.2", Version: "2.28.9"}},
		}
		for b := range n {
			g.Links[a][b] = topology.Link{Class: topology.NVLink, Count: 18}
		}
	}
	g.P2P, g.Multicast, g.Platform, g.Alignment = topology.P2PReported, topology.Yes, "linux/amd64", 256
	req := backend.Request{Group: g, Class: collective.Class{Memory: collective.CUDA, DataType: collective.BFloat16}}
	for _, f := range change {
		f(&req)
	}
	return req
}

func onHost(r *backend.Request)        { r.Class.Memory = collective.Host }
func captured(r *backend.Request)      { r.Class.Captured = true }
func float32s(r *backend.Request)      { r.Class.DataType = collective.Float32 }
func hypothetical(r *backend.Request)  { r.Hypothetical = true }
func deterministic(r *backend.Request) { r.Group.Deterministic = true }
func op(o collective.Op) func(*backend.Request) {
	return func(r *backend.Request) { r.Class.Op = o }
}
func noPlatform(r *backend.Request)  { r.Group.Platform = "" }
func noMulticast(r *backend.Request) { r.Group.Multicast = topology.No }
func multicastUnknown(r *backend.Request) {
	r.Group.Multicast = topology.NotKnown
}

func link(a, b int, c topology.Class) func(*backend.Request) {
	return func(r *backend.Request) {
		r.Group.Links[a][b] = topology.Link{Class: c}
		r.Group.Links[b][a] = topology.Link{Class: c}
	}
}

// byLink are windows of which those of one link are measured.
var byLink = []backend.Window{{Link: topology.NVLink, Range: upTo(100), Unmeasured: true}, {Link: topology.SYS, Range: upTo(50)}}

var unlinked = link(0, 1, topology.Unknown)

func failed(r *backend.Request) {
	r.Group.P2P, r.Group.P2PDetail = topology.P2PFailed, "rank 0 into the memory of rank 1: nothing came"
}

func p2p(p topology.P2P) func(*backend.Request) { return func(r *backend.Request) { r.Group.P2P = p } }

func aligned(n int) func(*backend.Request) { return func(r *backend.Request) { r.Group.Alignment = n } }

// onNodes has the ranks bound to NUMA nodes; "" is to none.
func onNodes(numbers ...string) func(*backend.Request) {
	return func(r *backend.Request) {
		for i, n := range numbers {
			r.Group.Ranks[i].NUMA = n
		}
	}
}

func inFlight(n int) func(*backend.Request) { return func(r *backend.Request) { r.Group.InFlight = n } }

func placed(p collective.Placement) func(*backend.Request) {
	return func(r *backend.Request) { r.Group.Placement = p }
}

func driver(rank int, v string) func(*backend.Request) {
	return func(r *backend.Request) { r.Group.Ranks[rank].Driver = v }
}

func capability(rank int, v string) func(*backend.Request) {
	return func(r *backend.Request) { r.Group.Ranks[rank].Device.Capability = v }
}

func vendor(rank int, v string) func(*backend.Request) {
	return func(r *backend.Request) { r.Group.Ranks[rank].Device.Vendor = v }
}

func noGPU(rank int) func(*backend.Request) {
	return func(r *backend.Request) { r.Group.Ranks[rank].Device = nil }
}

func hostName(rank int, v string) func(*backend.Request) {
	return func(r *backend.Request) { r.Group.Ranks[rank].Host = v }
}

func libraries(rank int, l ...collective.Library) func(*backend.Request) {
	return func(r *backend.Request) { r.Group.Ranks[rank].Libraries = l }
}

// The cases write the verdict as it is shown to people: "" for accept, else kind and reasons.
var checkCases = []struct {
	field string // of Requirements
	name  string
	needs backend.Requirements
	req   backend.Request
	want  string
}{
	{"WorldSizes", "met", backend.Requirements{WorldSizes: []backend.Span{{2, 4}, {8, 8}}}, gpus(8), ""},
	{"WorldSizes", "between spans", backend.Requirements{WorldSizes: []backend.Span{{2, 4}, {8, 8}}}, gpus(5), "decline; WORLD_SIZE: 5, needs 2 to 4, 8"},
	{"WorldSizes", "no largest", backend.Requirements{WorldSizes: []backend.Span{{Min: 9, Max: math.MaxInt32}}}, gpus(8), "decline; WORLD_SIZE: 8, needs 9 or more"},
	{"WorldSizes", "exactly", backend.Requirements{WorldSizes: backend.Exactly(2, 4)}, gpus(3), "decline; WORLD_SIZE: 3, needs 2, 4"},
	{"Memories", "met", backend.Requirements{Memories: []collective.Memory{collective.CUDA}}, gpus(2), ""},
	{"Memories", "unmet", backend.Requirements{Memories: []collective.Memory{collective.CUDA}}, gpus(2, onHost), "decline; MEMORY: host, needs cuda"},
	{"DataTypes", "met", backend.Requirements{DataTypes: []collective.DataType{collective.BFloat16}}, gpus(2), ""},
	{"DataTypes", "unmet", backend.Requirements{DataTypes: []collective.DataType{collective.BFloat16, collective.Float16}}, gpus(2, float32s), "decline; DTYPE: float32, needs bfloat16, float16"},
	{"Ops", "met", backend.Requirements{Ops: []collective.Op{collective.Sum}}, gpus(2), ""},
	{"Ops", "unmet", backend.Requirements{Ops: []collective.Op{collective.Max}}, gpus(2), "decline; OP: sum, needs max"},
	{"Scope", "one host met", backend.Requirements{Scope: backend.OneHost}, gpus(2), ""},
	{"Scope", "one host unmet", backend.Requirements{Scope: backend.OneHost}, gpus(2, hostName(1, "b")), "decline; MULTI_HOST: 2 hosts, needs one host"},
	{"Scope", "clique met", backend.Requirements{Scope: backend.OneClique}, gpus(4), ""},
	{"Scope", "clique unmet", backend.Requirements{Scope: backend.OneClique}, gpus(4, link(1, 2, topology.PIX)), "decline; SCOPE: PIX, needs NVLink on every pair (ranks 1-2)"},
	{"Scope", "clique unknown", backend.Requirements{Scope: backend.OneClique}, gpus(4, link(1, 2, topology.Unknown)), "unknown; PROBE_UNAVAILABLE: link of a pair unknown, needs NVLink on every pair"},
	{"Scope", "clique with links that allow more", backend.Requirements{Scope: backend.OneClique, Links: []topology.Class{topology.NVLink, topology.PIX}}, gpus(4, link(1, 2, topology.PIX)), "decline; SCOPE: PIX, needs NVLink on every pair (ranks 1-2)"},
	{"Scope", "clique of host memory", backend.Requirements{Scope: backend.OneClique}, gpus(4, onHost, link(1, 2, topology.PIX)), ""},
	{"Links", "met", backend.Requirements{Links: []topology.Class{topology.NVLink, topology.PIX}}, gpus(4, link(0, 3, topology.PIX)), ""},
	{"Links", "worst of several", backend.Requirements{Links: []topology.Class{topology.NVLink}}, gpus(4, link(0, 3, topology.SYS), link(0, 1, topology.PIX)), "decline; LINK_NOT_FULL: SYS, needs NVLink on every pair (ranks 0-1, 0-3)"},
	{"Links", "known to be unmet beats unknown", backend.Requirements{Links: []topology.Class{topology.NVLink, topology.PIX}}, gpus(4, link(0, 3, topology.Unknown), link(0, 1, topology.SYS)), "decline; LINK_NOT_FULL: SYS, needs NVLink or PIX on every pair (ranks 0-1)"},
	{"Links", "unknown", backend.Requirements{Links: []topology.Class{topology.PIX, topology.NVLink}}, gpus(4, link(0, 3, topology.Unknown)), "unknown; PROBE_UNAVAILABLE: link of a pair unknown, needs PIX or NVLink on every pair"},
	{"Links", "missing", backend.Requirements{Links: []topology.Class{topology.NVLink}}, gpus(2, func(r *backend.Request) { r.Group.Links = nil }), "unknown; PROBE_UNAVAILABLE: link of a pair unknown, needs NVLink on every pair"},
	{"Links", "one rank has no pair", backend.Requirements{Links: []topology.Class{topology.NVLink}}, gpus(1), ""},
	{"Links", "several pairs", backend.Requirements{Links: []topology.Class{topology.NVLink}}, gpus(4, link(0, 3, topology.SYS), link(0, 1, topology.PIX), link(0, 2, topology.PIX), link(1, 2, topology.PIX), link(2, 3, topology.PIX), link(1, 3, topology.PIX)), "decline; LINK_NOT_FULL: SYS, needs NVLink on every pair (ranks 0-1, 0-2, 1-2, 0-3 and 2 more pairs)"},
	{"Links", "one way only", backend.Requirements{Links: []topology.Class{topology.NVLink}}, gpus(2, func(r *backend.Request) { r.Group.Links[1][0] = topology.Link{Class: topology.SYS} }), "decline; LINK_NOT_FULL: SYS, needs NVLink on every pair (ranks 0-1)"},
	{"LinksFrom", "met by two ranks", backend.Requirements{Links: []topology.Class{topology.NVLink}, LinksFrom: 3}, gpus(2, link(0, 1, topology.SYS)), ""},
	{"LinksFrom", "unmet by three", backend.Requirements{Links: []topology.Class{topology.NVLink, topology.XGMI}, LinksFrom: 3}, gpus(3, link(0, 1, topology.SYS)), "decline; LINK_NOT_FULL: SYS, needs NVLink or XGMI on every pair of 3 or more ranks (ranks 0-1)"},
	{"Scope", "fabric met", backend.Requirements{Scope: backend.OneFabric}, gpus(2), ""},
	{"Scope", "fabric of several hosts", backend.Requirements{Scope: backend.OneFabric}, gpus(2, hostName(1, "b")), "unknown; PROBE_UNAVAILABLE: NVLink fabric of 2 hosts unknown, needs one fabric (the same cluster and clique id)"},
	{"Vendors", "met", backend.Requirements{Vendors: []string{"amd", "nvidia"}}, gpus(2), ""},
	{"Vendors", "unmet", backend.Requirements{Vendors: []string{"amd"}}, gpus(1), "decline; PLATFORM on rank 0: nvidia, needs amd"},
	{"Vendors", "unknown", backend.Requirements{Vendors: []string{"amd"}}, gpus(2, vendor(1, "")), "decline; PLATFORM on rank 0: nvidia, needs amd"},
	{"Vendors", "only unknown", backend.Requirements{Vendors: []string{"nvidia"}}, gpus(2, vendor(1, "")), "unknown; PROBE_UNAVAILABLE on rank 1: vendor of the GPU unknown, needs nvidia"},
	{"Vendors", "no GPU", backend.Requirements{Vendors: []string{"nvidia"}}, gpus(2, noGPU(1)), "decline; PLATFORM on rank 1: no GPU, needs a GPU of nvidia"},
	{"P2P", "assumed where unknown", backend.Requirements{P2P: backend.P2PAssumed}, gpus(2, p2p(topology.P2PUnknown)), ""},
	{"P2P", "assumed where reported", backend.Requirements{P2P: backend.P2PAssumed}, gpus(2), ""},
	{"P2P", "assumed where absent", backend.Requirements{P2P: backend.P2PAssumed}, gpus(2, p2p(topology.P2PNone)), "decline; P2P_UNREPORTED: none, needs peer-to-peer access, which it assumes"},
	{"P2P", "assumed by one rank", backend.Requirements{P2P: backend.P2PAssumed}, gpus(1, p2p(topology.P2PNone)), ""},
	{"Capabilities", "of a major version", backend.Requirements{Capabilities: []string{"9.x"}}, gpus(2, capability(1, "9.7")), ""},
	{"Capabilities", "of another major version", backend.Requirements{Capabilities: []string{"9.x"}}, gpus(1, capability(0, "90.0")), "decline; ARCH on rank 0: 90.0, needs 9.x"},
	{"Capabilities", "met by older", backend.Requirements{Capabilities: []string{"8.9-"}}, gpus(1, capability(0, "7.5")), ""},
	{"Capabilities", "newer than the newest", backend.Requirements{Capabilities: []string{"8.9-"}}, gpus(1), "decline; ARCH on rank 0: 9.0, needs 8.9-"},
	{"Capabilities", "AMD's name", backend.Requirements{Capabilities: []string{"gfx942"}}, gpus(1, capability(0, "gfx942")), ""},
	{"Capabilities", "AMD's name is no number", backend.Requirements{Capabilities: []string{"8.9-", "0+", "0.x"}}, gpus(1, capability(0, "gfx942")), "decline; ARCH on rank 0: gfx942, needs 8.9-, 0+, 0.x"},
	{"P2P", "reported met", backend.Requirements{P2P: topology.P2PReported}, gpus(2), ""},
	{"P2P", "proof is more than a report", backend.Requirements{P2P: topology.P2PReported}, gpus(2, p2p(topology.P2PVerified)), ""},
	{"P2P", "none", backend.Requirements{P2P: topology.P2PReported}, gpus(2, p2p(topology.P2PNone)), "decline; P2P_UNREPORTED: none, needs reported"},
	{"P2P", "none, proof needed", backend.Requirements{P2P: topology.P2PVerified}, gpus(2, p2p(topology.P2PNone)), "decline; P2P_UNREPORTED: none, needs verified"},
	{"P2P", "reported, proof needed", backend.Requirements{P2P: topology.P2PVerified}, gpus(2), "unknown; PROBE_UNAVAILABLE: peer-to-peer access reported, proof unknown, needs verified (`weir doctor` on the machine finds out)"},
	{"P2P", "unknown", backend.Requirements{P2P: topology.P2PReported}, gpus(2, p2p(topology.P2PUnknown)), "unknown; PROBE_UNAVAILABLE: peer-to-peer access unknown, needs reported"},
	{"P2P", "unknown, proof needed", backend.Requirements{P2P: topology.P2PVerified}, gpus(2, p2p(topology.P2PUnknown)), "unknown; PROBE_UNAVAILABLE: peer-to-peer access unknown, needs verified (`weir doctor` on the machine finds out)"},
	{"P2P", "failed, proof needed", backend.Requirements{P2P: topology.P2PVerified}, gpus(2, failed), "decline; P2P_VERIFY_FAILED: failed, needs verified (rank 0 into the memory of rank 1: nothing came)"},
	{"P2P", "failed, report needed", backend.Requirements{P2P: topology.P2PReported}, gpus(2, failed), "decline; P2P_VERIFY_FAILED: failed, needs reported (rank 0 into the memory of rank 1: nothing came)"},
	{"P2P", "failed, assumed", backend.Requirements{P2P: backend.P2PAssumed}, gpus(2, p2p(topology.P2PFailed)), "decline; P2P_VERIFY_FAILED: failed, needs assumed"},
	{"P2P", "failed, none needed", backend.Requirements{}, gpus(2, failed), ""},
	{"P2P", "failed, one rank", backend.Requirements{P2P: topology.P2PVerified}, gpus(1, failed), ""},
	{"P2P", "one rank has no peer", backend.Requirements{P2P: topology.P2PVerified}, gpus(1), ""},
	{"Multicast", "met", backend.Requirements{Multicast: true}, gpus(2), ""},
	{"Multicast", "unmet", backend.Requirements{Multicast: true}, gpus(2, noMulticast), "decline; NO_MULTICAST: no, needs NVLink multicast"},
	{"Multicast", "unknown", backend.Requirements{Multicast: true}, gpus(2, multicastUnknown), "unknown; PROBE_UNAVAILABLE: multicast unknown, needs NVLink multicast"},
	{"Capabilities", "met exactly", backend.Requirements{Capabilities: []string{"8.0", "9.0"}}, gpus(2), ""},
	{"Capabilities", "met by newer", backend.Requirements{Capabilities: []string{"9.0+"}}, gpus(2, capability(1, "12.0")), ""},
	{"Capabilities", "newer is not exactly", backend.Requirements{Capabilities: []string{"9.0"}}, gpus(2, capability(1, "12.0")), "decline; ARCH on rank 1: 12.0, needs 9.0"},
	{"Capabilities", "the same on all ranks", backend.Requirements{Capabilities: []string{"10.0+"}}, gpus(3), "decline; ARCH: 9.0, needs 10.0+"},
	{"Capabilities", "two of three", backend.Requirements{Capabilities: []string{"10.0+"}}, gpus(3, capability(1, "10.0")), "decline; ARCH on rank 0: 9.0, needs 10.0+; ARCH on rank 2: 9.0, needs 10.0+"},
	{"Capabilities", "unknown on all ranks", backend.Requirements{Capabilities: []string{"9.0+"}}, gpus(2, capability(0, ""), capability(1, "")), "unknown; PROBE_UNAVAILABLE: compute capability unknown, needs 9.0+"},
	{"Capabilities", "said once where windows need it too", backend.Requirements{Capabilities: []string{"10.0"}, Windows: []backend.Window{{Capability: "10.0", Range: upTo(9)}}}, gpus(2), "decline; ARCH: 9.0, needs 10.0"},
	{"WorldSizes", "said once where windows need it too", backend.Requirements{WorldSizes: backend.Exactly(8), Windows: []backend.Window{{WorldSizes: backend.Span{Min: 8, Max: 8}, Range: upTo(9)}}}, gpus(4), "decline; WORLD_SIZE: 4, needs 8"},
	{"Capabilities", "older", backend.Requirements{Capabilities: []string{"10.0+"}}, gpus(1), "decline; ARCH on rank 0: 9.0, needs 10.0+"},
	{"Capabilities", "no GPU", backend.Requirements{Capabilities: []string{"9.0+"}}, gpus(2, noGPU(1)), "decline; ARCH on rank 1: no GPU, needs 9.0+"},
	{"Capabilities", "unknown", backend.Requirements{Capabilities: []string{"9.0+"}}, gpus(2, capability(1, "")), "unknown; PROBE_UNAVAILABLE on rank 1: compute capability unknown, needs 9.0+"},
	{"NUMANodes", "met", backend.Requirements{NUMANodes: 2}, gpus(3, onNodes("0", "1", "0")), ""},
	{"NUMANodes", "one is none", backend.Requirements{NUMANodes: 1}, gpus(2), ""},
	{"NUMANodes", "unmet", backend.Requirements{NUMANodes: 2}, gpus(2, onNodes("1", "1")), "decline; NUMA: 1 NUMA node, needs 2 or more"},
	{"NUMANodes", "too few ranks", backend.Requirements{NUMANodes: 3}, gpus(2, onNodes("1")), "decline; NUMA: 2 NUMA nodes, needs 3 or more"},
	{"NUMANodes", "one rank unbound", backend.Requirements{NUMANodes: 2}, gpus(3, onNodes("0", "", "1")), "unknown; PROBE_UNAVAILABLE on rank 1: NUMA node unknown, needs ranks bound to 2 or more NUMA nodes, each to one"},
	{"NUMANodes", "no rank bound", backend.Requirements{NUMANodes: 2}, gpus(2), "unknown; PROBE_UNAVAILABLE: NUMA node unknown, needs ranks bound to 2 or more NUMA nodes, each to one"},
	{"Platforms", "met", backend.Requirements{Platforms: []string{"linux/arm64", "linux/amd64"}}, gpus(2), ""},
	{"Platforms", "unmet", backend.Requirements{Platforms: []string{"linux/arm64"}}, gpus(2), "decline; PLATFORM: linux/amd64, needs linux/arm64"},
	{"Platforms", "unknown", backend.Requirements{Platforms: []string{"linux/arm64"}}, gpus(2, noPlatform), "unknown; PROBE_UNAVAILABLE: platform unknown, needs linux/arm64"},
	{"Driver", "met", backend.Requirements{Driver: "570.9"}, gpus(2), ""},
	{"Driver", "older", backend.Requirements{Driver: "550"}, gpus(2, driver(1, "535.104.05")), "decline; VERSION on rank 1: driver 535.104.05, needs 550 or newer"},
	{"Driver", "unknown", backend.Requirements{Driver: "550"}, gpus(2, driver(1, "")), "unknown; PROBE_UNAVAILABLE on rank 1: driver unknown, needs 550 or newer"},
	{"Driver", "unknown, but the GPUs run with none so old", backend.Requirements{Driver: "520"}, gpus(2, driver(1, "")), ""},
	{"Driver", "unknown, and the GPU too", backend.Requirements{Driver: "450"}, gpus(2, driver(1, ""), capability(1, "")), "unknown; PROBE_UNAVAILABLE on rank 1: driver unknown, needs 450 or newer"},
	{"Driver", "not for host memory", backend.Requirements{Driver: "999"}, gpus(2, onHost), ""},
	{"Libraries", "met", backend.Requirements{Libraries: []collective.Library{{Name: "nccl", Version: "2.9"}}}, gpus(2), ""},
	{"Libraries", "not loaded", backend.Requirements{Libraries: []collective.Library{{Name: "nvshmem", Version: "3.0"}}}, gpus(1), "decline; LIB_MISSING on rank 0: not loaded, needs nvshmem 3.0"},
	{"Libraries", "not loaded, any version", backend.Requirements{Libraries: []collective.Library{{Name: "nccl"}}}, gpus(2, libraries(1)), "decline; LIB_MISSING on rank 1: not loaded, needs nccl"},
	{"Libraries", "older", backend.Requirements{Libraries: []collective.Library{{Name: "nccl", Version: "2.29"}}}, gpus(1), "decline; VERSION on rank 0: nccl 2.28.9, needs 2.29 or newer"},
	{"Libraries", "version unknown", backend.Requirements{Libraries: []collective.Library{{Name: "nccl", Version: "2.23"}}}, gpus(1, libraries(0, collective.Library{Name: "nccl"})), "unknown; PROBE_UNAVAILABLE on rank 0: version of nccl unknown, needs 2.23 or newer"},
	{"Libraries", "of a machine elsewhere", backend.Requirements{Libraries: []collective.Library{{Name: "nccl"}}}, gpus(1, libraries(0), hypothetical), "unknown; PROBE_UNAVAILABLE on rank 0: nccl unknown, needs nccl"},
	{"Windows", "none for the capability", backend.Requirements{Windows: []backend.Window{{Capability: "8.0", Range: upTo(100)}}}, gpus(1), "decline; ARCH: 9.0, needs one with a byte window"},
	{"Windows", "not for every capability", backend.Requirements{Windows: []backend.Window{{Capability: "9.0", Range: upTo(100)}}}, gpus(2, capability(1, "8.0")), "decline; ARCH: 9.0, 8.0, needs one with a byte window"},
	{"Windows", "capability unknown", backend.Requirements{Windows: []backend.Window{{Capability: "8.0", Range: upTo(100)}}}, gpus(2, capability(1, "")), "unknown; PROBE_UNAVAILABLE: compute capability unknown, needs one with a byte window"},
	{"Windows", "no GPU", backend.Requirements{Windows: []backend.Window{{Capability: "8.0", Range: upTo(100)}}}, gpus(1, noGPU(0)), "decline; ARCH: no GPU, needs one with a byte window"},
	{"Windows", "none for the link", backend.Requirements{Windows: byLink}, gpus(2, link(0, 1, topology.PIX)), "decline; LINK_NOT_FULL: PIX, needs one with a byte window"},
	{"Windows", "link unknown", backend.Requirements{Windows: byLink}, gpus(2, unlinked), "unknown; PROBE_UNAVAILABLE: link of a pair unknown, needs one with a byte window"},
	{"Windows", "link said once where a requirement needs it too", backend.Requirements{Links: []topology.Class{topology.SYS}, Windows: byLink}, gpus(2, link(0, 1, topology.PIX)), "decline; LINK_NOT_FULL: PIX, needs SYS on every pair (ranks 0-1)"},
	{"Windows", "none for the world size", backend.Requirements{Windows: []backend.Window{{WorldSizes: backend.Span{Min: 8, Max: 8}, Range: upTo(100)}}}, gpus(4), "decline; WORLD_SIZE: 4, needs one with a byte window"},
	{"Windows", "none for the type", backend.Requirements{Windows: []backend.Window{{DataType: ptr(collective.Float16), Range: upTo(100)}}}, gpus(4), "decline; DTYPE: bfloat16, needs one with a byte window"},
	{"Windows", "none for the mode", backend.Requirements{Windows: []backend.Window{{Mode: backend.Captured, Range: upTo(100)}}}, gpus(4), "decline; CAPTURE_STATE: eager, needs a mode with a byte window"},
	{"Multiple", "met", backend.Requirements{Multiple: 16}, gpus(1), ""},
	{"Multiple", "not in any window", backend.Requirements{Multiple: 16, Windows: []backend.Window{{Range: upTo(15)}}}, gpus(1), "decline; ALIGNMENT: no byte count in the windows, needs multiples of 16 B"},
	{"Alignment", "met", backend.Requirements{Alignment: 128}, gpus(1), ""},
	{"Alignment", "unmet", backend.Requirements{Alignment: 512}, gpus(1), "decline; ALIGNMENT: buffers aligned to 256 B, needs 512 B"},
	{"Alignment", "met by the element", backend.Requirements{Alignment: 4}, gpus(1, aligned(0), float32s), ""},
	{"Alignment", "element only", backend.Requirements{Alignment: 16}, gpus(1, aligned(0), float32s), "decline; ALIGNMENT: buffers aligned to 4 B, needs 16 B"},
	{"Alignment", "promise and element together", backend.Requirements{Alignment: 12}, gpus(1, aligned(3), float32s), ""},
	{"Placement", "met", backend.Requirements{Placement: collective.InPlace}, gpus(1, placed(collective.InPlace)), ""},
	{"Placement", "the other", backend.Requirements{Placement: collective.InPlace}, gpus(1, placed(collective.OutOfPlace)), "decline; IN_PLACE: out_of_place, needs in_place"},
	{"Placement", "not promised", backend.Requirements{Placement: collective.OutOfPlace}, gpus(1), "decline; IN_PLACE: any placement, needs out_of_place"},
	{"Modes", "met", backend.Requirements{Modes: []backend.Mode{backend.Captured}}, gpus(1, captured), ""},
	{"Modes", "unmet", backend.Requirements{Modes: []backend.Mode{backend.Eager}}, gpus(1, captured), "decline; CAPTURE_STATE: captured, needs eager"},
	{"Registered", "met", backend.Requirements{Registered: true}, gpus(1, func(r *backend.Request) { r.Class.Registered = true }), ""},
	{"Registered", "unmet", backend.Requirements{Registered: true}, gpus(1), "decline; MEMORY: not registered, needs registered memory (Group.Alloc, on a GPU Group.AllocDevice)"},
	{"InFlight", "met", backend.Requirements{InFlight: 2}, gpus(1, inFlight(2)), ""},
	{"InFlight", "unmet", backend.Requirements{InFlight: 2}, gpus(1, inFlight(3)), "decline; IN_FLIGHT: 3, needs at most 2"},
	{"Deterministic", "promised", backend.Requirements{Deterministic: true}, gpus(1, deterministic), ""},
	{"Deterministic", "not promised", backend.Requirements{}, gpus(3, deterministic), "decline; DETERMINISM: not promised, needs the same bits in every run"},
	{"Deterministic", "not promised, two ranks", backend.Requirements{}, gpus(2, deterministic), ""},
	{"Deterministic", "not promised, two ranks, avg", backend.Requirements{}, gpus(2, deterministic, op(collective.Avg)), "decline; DETERMINISM: not promised, needs the same bits in every run"},
	{"Deterministic", "not promised, max", backend.Requirements{}, gpus(3, deterministic, op(collective.Max)), ""},
	{"Deterministic", "not promised, integers", backend.Requirements{}, gpus(3, deterministic, func(r *backend.Request) { r.Class.DataType = collective.Int8 }), ""},
}

func ptr[T any](v T) *T { return &v }

func upTo(n int64) backend.Range { return backend.Range{Min: 1, Max: n} }

func TestCheck(t *testing.T) {
	for _, c := range checkCases {
		t.Run(c.field+"/"+c.name, func(t *testing.T) {
			v := c.needs.Check(c.req)
			if err := v.Validate(); err != nil {
				t.Errorf("the verdict is nonsense: %v", err)
			}
			if c.want == "" {
				if v.Kind != backend.Accept {
					t.Errorf("got %s, want accept", v)
				}
			} else if v.String() != c.want {
				t.Errorf("got  %s\nwant %s", v, c.want)
			}
		})
	}
}

// TestCheckCoversEveryRequirement fails when a field is added to Requirements without a case that is unmet.
func TestCheckCoversEveryRequirement(t *testing.T) {
	fields := reflect.TypeFor[backend.Requirements]()
	for i := range fields.NumField() {
		name := fields.Field(i).Name
		for _, met := range []bool{true, false} {
			found := false
			for _, c := range checkCases {
				found = found || c.field == name && (c.want == "") == met
			}
			if !found && !(met && name == "Windows") && name != "Order" { // TestWindows has those; Order is about several backends: core/dispatch
				t.Errorf("no case for %s with met = %v", name, met)
			}
		}
	}
}

func TestCheckFindsEveryReason(t *testing.T) {
	needs := backend.Requirements{
		WorldSizes: backend.Exactly(8), Memories: []collective.Memory{collective.Host}, Ops: []collective.Op{collective.Max},
		Driver: "999", Platforms: []string{"linux/arm64"},
	}
	v := needs.Check(gpus(2, noPlatform))
	var codes []backend.Code
	for _, r := range v.Reasons {
		codes = append(codes, r.Code)
	}
	want := []backend.Code{backend.MemoryKind, backend.OpCode, backend.WorldSize, backend.Version}
	if v.Kind != backend.Decline || !slices.Equal(codes, want) {
		t.Errorf("got %s, want decline with %v and nothing of the unknown platform", v, want)
	}
}

func TestNoRequirementsAcceptEverything(t *testing.T) {
	for _, req := range []backend.Request{gpus(1), gpus(8, onHost), gpus(3, captured, hypothetical), {Group: collective.HostGroup("g", 2)}} {
		if diff := cmp.Diff(backend.Accepted(backend.AllBytes()...), backend.Requirements{}.Check(req)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestWindows(t *testing.T) {
	r := func(min, max, multiple int64) backend.Range {
		return backend.Range{Min: min, Max: max, Multiple: multiple}
	}
	windows := []backend.Window{
		{Range: r(1, 10, 0)},
		{Capability: "9.0", Range: r(1, 20, 0)},
		{Capability: "8.0+", WorldSizes: backend.Span{Min: 8, Max: 8}, Range: r(1, 30, 0)},
		{WorldSizes: backend.Span{Min: 4, Max: 4}, Mode: backend.Captured, Range: r(1, 40, 0)},
		{Capability: "12.0", WorldSizes: backend.Span{Min: 8, Max: 8}, Mode: backend.Eager, Range: r(1, 50, 0)},
		{DataType: ptr(collective.Float32), Range: r(1, 60, 0)},
	}
	for _, c := range []struct {
		name string
		req  backend.Request
		last []int64 // Max of each range left
	}{
		{"only the general one", gpus(2, capability(0, "7.0"), capability(1, "7.0")), []int64{10}},
		{"capability", gpus(2), []int64{10, 20}},
		{"capability of one rank only", gpus(2, capability(1, "12.0")), []int64{10}},
		{"capability unknown", gpus(2, capability(1, "")), []int64{10}},
		{"world size", gpus(8), []int64{10, 20, 30}},
		{"mode", gpus(4, captured), []int64{10, 20, 40}},
		{"data type", gpus(2, float32s), []int64{10, 20, 60}},
	} {
		v := backend.Requirements{Windows: windows}.Check(c.req)
		var last []int64
		for _, r := range v.Ranges {
			last = append(last, r.Max)
		}
		if !slices.Equal(last, c.last) {
			t.Errorf("%s: got %s, want windows up to %v", c.name, v, c.last)
		}
	}
	v := backend.Requirements{Multiple: 12, Windows: []backend.Window{{Range: r(1, 100, 8)}, {Range: r(1, 11, 0)}}}.Check(gpus(1))
	if diff := cmp.Diff(backend.Accepted(r(1, 100, 24)), v); diff != "" {
		t.Errorf("multiples of backend and window (-want +got):\n%s", diff)
	}
	if windows[0].Range != r(1, 10, 0) {
		t.Error("Check changed the windows")
	}
}

func TestInfoCheckDeclinesSeveralHosts(t *testing.T) {
	twoHosts := gpus(2, hostName(1, "b"))
	for _, kind := range plan.Kinds() {
		for _, scope := range []backend.Scope{backend.AnyScope, backend.OneHost} {
			info := backend.Info{Name: "x", Kind: kind, Requirements: backend.Requirements{Scope: scope}}
			v := info.Check(twoHosts)
			want := "decline; MULTI_HOST: 2 hosts, needs one host"
			if kind == plan.LibraryKind && scope == backend.AnyScope {
				want = "accept all sizes"
			}
			if v.String() != want {
				t.Errorf("%s, scope %q: got %q, want %q", kind, scope, v, want)
			}
			if v := info.Check(gpus(2)); v.Kind != backend.Accept {
				t.Errorf("%s on one host: %s", kind, v)
			}
		}
	}
	info := backend.Info{Kind: plan.KernelKind, Requirements: backend.Requirements{Ops: []collective.Op{collective.Max}, Platforms: []string{"x"}}}
	if got := info.Check(twoHosts).String(); !strings.HasPrefix(got, "decline; OP") || !strings.HasSuffix(got, "needs one host") {
		t.Errorf("got %q, want both reasons", got)
	}
	if got := fmt.Sprint(backend.Info{Kind: plan.KernelKind, Requirements: backend.Requirements{Platforms: []string{"x"}}}.Check(gpus(2, hostName(1, "b"), noPlatform))); got != "decline; MULTI_HOST: 2 hosts, needs one host" {
		t.Errorf("known beats unknown: got %q", got)
	}
}

// TestWindowsByLink has the window of the slowest link, and says whether it was measured.
func TestWindowsByLink(t *testing.T) {
	for want, req := range map[string]backend.Request{
		"accept 1 B to 100 B (unmeasured)": gpus(3),
		"accept 1 B to 50 B":               gpus(3, link(0, 2, topology.SYS)),
	} {
		if v := (backend.Requirements{Windows: byLink}).Check(req); v.String() != want {
			t.Errorf("got %s, want %s", v, want)
		}
	}
	multiple := backend.Requirements{Windows: byLink, Multiple: 4}.Check(gpus(2))
	if want := "accept 1 B to 100 B (multiples of 4 B, unmeasured)"; multiple.String() != want {
		t.Errorf("got %s, want %s", multiple, want)
	}
	described := strings.Join(backend.Requirements{Windows: byLink}.Describe(), "; ")
	if want := "sizes 1 B to 100 B (NVLink, unmeasured), 1 B to 50 B (SYS)"; described != want {
		t.Errorf("got %s, want %s", described, want)
	}
}

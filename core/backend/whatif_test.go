package backend_test

import (
	"strings"
	"testing"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/topology"
)

func TestWouldAccept(t *testing.T) {
	nvlink := []topology.Class{topology.NVLink}
	for _, c := range []struct {
		name  string
		needs backend.Requirements
		req   backend.Request
		want  string // phrases, joined by "; "
	}{
		{"accepts", backend.Requirements{}, gpus(2), ""},
		{"proof", backend.Requirements{P2P: topology.P2PVerified}, gpus(2), "P2P were verified"},
		{"a failed proof", backend.Requirements{P2P: topology.P2PVerified}, gpus(2, failed), "P2P were verified"},
		{"access that is assumed, a failed proof", backend.Requirements{P2P: backend.P2PAssumed}, gpus(2, failed), "there were peer-to-peer access"},
		{"a link with a window", backend.Requirements{Windows: byLink}, gpus(2, unlinked), "every pair were linked by NVLink or SYS"},
		{"a driver's word", backend.Requirements{P2P: topology.P2PReported}, gpus(2, p2p(topology.P2PNone)), "P2P were reported"},
		{"access that is assumed", backend.Requirements{P2P: backend.P2PAssumed}, gpus(2, p2p(topology.P2PNone)), "there were peer-to-peer access"},
		{"links", backend.Requirements{Links: nvlink, LinksFrom: 3}, gpus(4, link(0, 3, topology.SYS)), "every pair were linked by NVLink"},
		{"unknown link", backend.Requirements{Links: nvlink}, gpus(4, link(0, 3, topology.Unknown)), "every pair were linked by NVLink"},
		{"clique", backend.Requirements{Scope: backend.OneClique}, gpus(3, link(0, 2, topology.PIX)), "every pair were linked by NVLink"},
		{"either link", backend.Requirements{Links: []topology.Class{topology.NVLink, topology.PIX}}, gpus(2, link(0, 1, topology.SYS)), "every pair were linked by NVLink or PIX"},
		{"multicast", backend.Requirements{Multicast: true}, gpus(2, multicastUnknown), "there were NVLink multicast"},
		{"ranks", backend.Requirements{WorldSizes: backend.Exactly(2, 4, 6, 8)}, gpus(3), "the group had 2, 4, 6 or 8 ranks"},
		{"a span of ranks", backend.Requirements{WorldSizes: []backend.Span{{Min: 2, Max: 8}, {Min: 16, Max: 1 << 31}}}, gpus(9), "the group had 2 to 8 or 16 or more ranks"},
		{
			"fewer ranks only where their links do",
			backend.Requirements{WorldSizes: backend.Exactly(2, 3), Links: nvlink, LinksFrom: 3},
			gpus(4, link(0, 2, topology.SYS)), "every pair were linked by NVLink; the group had 2 or 3 ranks",
		},
		{"capability", backend.Requirements{Capabilities: []string{"9.x", "10.0+"}}, gpus(2, capability(1, "8.0")), "the compute capability were 9.x or 10.0+"},
		{"capability of a window", backend.Requirements{Windows: []backend.Window{{Capability: "8.9-", Range: upTo(9)}}}, gpus(2), "the compute capability were 8.9-"},
		{"mode", backend.Requirements{Modes: []backend.Mode{backend.Captured}}, gpus(2), "the calls were captured"},
		{"type", backend.Requirements{DataTypes: []collective.DataType{collective.BFloat16, collective.Float16}}, gpus(2, float32s), "the type were float16 or bfloat16"},
		{"op", backend.Requirements{Ops: []collective.Op{collective.Max}}, gpus(2), "the op were max"},
		{"memory", backend.Requirements{Memories: []collective.Memory{collective.Host}}, gpus(2, captured), "the buffers were in host memory"},
		{"vendor", backend.Requirements{Vendors: []string{"amd"}}, gpus(2), "the GPUs were of amd"},
		{"NUMA nodes", backend.Requirements{NUMANodes: 2}, gpus(2), "the ranks were bound to 2 or more NUMA nodes, each to one"},
		{"platform", backend.Requirements{Platforms: []string{"linux/arm64"}}, gpus(2), "the platform were linux/arm64"},
		{"driver", backend.Requirements{Driver: "999"}, gpus(2), "the driver were 999 or newer"},
		{"library", backend.Requirements{Libraries: []collective.Library{{Name: "nccl", Version: "2.99"}}}, gpus(2), "the ranks loaded nccl 2.99 or newer"},
		{"hosts", backend.Requirements{Scope: backend.OneHost}, gpus(2, hostName(1, "b")), "all ranks were on one host"},
		{"fabric", backend.Requirements{Scope: backend.OneFabric}, gpus(2, hostName(1, "b")), "all ranks were on one host (or, if that were established, in one NVLink fabric)"},
		{"alignment", backend.Requirements{Alignment: 512}, gpus(2), "the group promised buffers aligned to 512 B"},
		{"placement", backend.Requirements{Placement: collective.InPlace}, gpus(2), "the group promised in_place calls only"},
		{"in flight", backend.Requirements{InFlight: 1}, gpus(2, inFlight(2)), "at most 1 calls were in flight"},
		{"determinism", backend.Requirements{}, gpus(3, deterministic), "the group did not ask for the same bits in every run"},
		{
			"all of them",
			backend.Requirements{WorldSizes: backend.Exactly(8), P2P: topology.P2PVerified, Multicast: true, Links: nvlink, Modes: []backend.Mode{backend.Captured}},
			gpus(4, noMulticast, link(1, 2, topology.PXB)),
			"the calls were captured; every pair were linked by NVLink; P2P were verified; there were NVLink multicast; the group had 8 ranks",
		},
		{"nothing helps", backend.Requirements{Multiple: 16, Windows: []backend.Window{{Range: upTo(15)}}}, gpus(2), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := c.needs.Check(c.req).String()
			if got := strings.Join(c.needs.WouldAccept(c.req), "; "); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
			if after := c.needs.Check(c.req).String(); after != before {
				t.Errorf("the question changed the request: %s, before %s", after, before)
			}
		})
	}
}

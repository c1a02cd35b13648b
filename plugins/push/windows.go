package main

import (
	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/topology"
)

// row is up to which byte count a backend serves groups. A group is served what the largest of its rows says, of those that were
// measured if there are any.
type row struct {
	capability string         // "": every one
	link       topology.Class // of the slowest pair; the zero class: every one
	worlds     backend.Span
	most       int64
	measured   string // the command whose figures the row is; "": it is a guess
}

func (r row) window() backend.Window {
	return backend.Window{
		Capability: r.capability, Link: r.link, WorldSizes: r.worlds, Range: backend.Range{Min: 1, Max: r.most}, Unmeasured: r.measured == "",
	}
}

func windows(rows []row) []backend.Window {
	return lo.Map(rows, func(r row, _ int) backend.Window { return r.window() })
}

func ranks(least, most int) backend.Span { return backend.Span{Min: least, Max: most} }

// The commands of what was measured, on H200s that NVLink (NV18) connects; the tables are in docs/kernels.md. push.test is made
// by ./task kernels:test. oneshot ends where twoshot gets faster, twoshot and hoststaged where a buffer ends or NCCL gets
// faster (for hoststaged NCCL with NCCL_P2P_DISABLE=1 unless the rows say otherwise).
const (
	linksOf2 = "WEIR_PUSH_LINKS=1 WEIR_PUSH_DEVICES=2 ./push.test -test.run GPULinks"
	linksOf4 = "WEIR_PUSH_LINKS=1 WEIR_PUSH_DEVICES=4 ./push.test -test.run GPULinks"
	p2pOf2   = "gpupeers -ranks 2 -modes graph"
	noP2POf2 = "gpupeers -ranks 2 -no-p2p -modes graph" // docs/performance.md
)

// The rows without a command are guesses: for more ranks over NVLink from what is sent, which for oneshot grows with them; over
// PCIe, of which a link has about an eighth of the bandwidth, from that. Figures of virtual ranks on one GPU never belong here:
// they cross no link.
var (
	oneShotRows = []row{
		{capability: "9.0", link: topology.NVLink, worlds: ranks(2, 2), most: 512 << 10, measured: linksOf2},
		{capability: "9.0", link: topology.NVLink, worlds: ranks(4, 4), most: 128 << 10, measured: linksOf4},
		{link: topology.NVLink, worlds: ranks(2, 2), most: 512 << 10},
		{link: topology.NVLink, worlds: ranks(3, 4), most: 128 << 10},
		{link: topology.NVLink, worlds: ranks(5, 8), most: 64 << 10},
		{link: topology.NVLink, worlds: ranks(9, maxWorld), most: 32 << 10},
		{worlds: ranks(2, 2), most: 128 << 10},
		{worlds: ranks(3, 4), most: 32 << 10},
		{worlds: ranks(5, 8), most: 16 << 10},
		{worlds: ranks(9, maxWorld), most: 8 << 10},
	}
	twoShotRows = []row{
		{capability: "9.0", link: topology.NVLink, worlds: ranks(2, 2), most: 4 << 20, measured: linksOf2},
		{capability: "9.0", link: topology.NVLink, worlds: ranks(4, 4), most: 4 << 20, measured: linksOf4},
		{link: topology.NVLink, worlds: ranks(2, maxWorld), most: 2 << 20},
		{worlds: ranks(2, maxWorld), most: 1 << 20},
	}
	hostStagedRows = []row{
		{capability: "9.0", link: topology.NVLink, worlds: ranks(2, 2), most: 512 << 10, measured: noP2POf2},
		{capability: "9.0", link: topology.NVLink, worlds: ranks(4, 4), most: 1 << 20, measured: linksOf4},
		{worlds: ranks(2, maxWorld), most: 1 << 20},
	}
	// Where GPUs with NVLink are said to reach each other, but have not been proved to: NCCL uses it, and is faster sooner.
	besideNVLinkRows = []row{
		{capability: "9.0", link: topology.NVLink, worlds: ranks(2, 2), most: 32 << 10, measured: p2pOf2},
		{capability: "9.0", link: topology.NVLink, worlds: ranks(4, 4), most: 128 << 10, measured: linksOf4},
		{link: topology.NVLink, worlds: ranks(2, maxWorld), most: 32 << 10},
	}
)

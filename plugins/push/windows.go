package main

import (
	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/topology"
)

// row is up to which byte count a backend serves groups. A group is served what the largest of its rows says.
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

func ranks(least, most int) backend.Span { return backend.Span{Min: least, Max: most} }

// All rows are guesses: no machine with several GPUs has been measured yet. Those of NVLink are half of where vLLM's
// custom all-reduce goes from one-shot to two-shot (csrc/custom_all_reduce.cuh: 512 KiB up to 4 ranks, 256 KiB up to 8), since
// flags double what is sent; over PCIe, of which a link has about an eighth of the bandwidth, an eighth of it.
// Figures of virtual ranks on one GPU (docs/kernels.md) never belong here: they cross no link.
var (
	oneShotRows = []row{
		{link: topology.NVLink, worlds: ranks(2, 2), most: 512 << 10},
		{link: topology.NVLink, worlds: ranks(3, 4), most: 256 << 10},
		{link: topology.NVLink, worlds: ranks(5, 8), most: 128 << 10},
		{link: topology.NVLink, worlds: ranks(9, maxWorld), most: 64 << 10},
		{worlds: ranks(2, 2), most: 128 << 10},
		{worlds: ranks(3, 4), most: 32 << 10},
		{worlds: ranks(5, 8), most: 16 << 10},
		{worlds: ranks(9, maxWorld), most: 8 << 10},
	}
	twoShotRows = []row{
		{link: topology.NVLink, worlds: ranks(2, maxWorld), most: 2 << 20},
		{worlds: ranks(2, maxWorld), most: 1 << 20},
	}
	hostStagedRows = []row{
		{worlds: ranks(2, maxWorld), most: 1 << 20},
	}
)

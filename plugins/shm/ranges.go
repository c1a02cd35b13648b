package main

import (
	"fmt"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
)

// row says which backend serves which message sizes, in bytes, for up to so many ranks. shm-twoshot serves what the others
// leave.
type row struct {
	ranks  int
	flat   int64 // shm-flat: up to this
	direct int64 // shm-direct, in registered memory: from this on
}

// The tables below are what `./task bench:ranges` printed (float32, sum, in place, the backends in turns), rounded to what is
// no loss on either machine: shm-flat ends at the largest size up to which it is as fast as shm-twoshot, and shm-direct
// begins at the smallest from which it is faster.

// spread is for ranks with a core each: 16 cores of a Sapphire Rapids virtual machine, and for two ranks 2 cores of an EPYC
// (Zen 5) one. More than 8 ranks are a guess.
var spread = []row{
	{2, 16 << 10, 1 << 20},
	{4, 2 << 10, 1 << 20},
	{8, 1 << 10, 1 << 20},
	{maxWorld, 512, 1 << 20},
}

// crowded is for more ranks than cores, where waiting once less is switching between processes once less: 4 and 8 ranks on
// 2 cores of an EPYC (Zen 5) virtual machine. More than 8 ranks are a guess.
var crowded = []row{
	{4, 16 << 10, 128 << 10},
	{maxWorld, 16 << 10, 256 << 10},
}

// isCrowded reports whether ranks must share cores. A group is taken to have enough if their number is not known.
func isCrowded(world, cores int) bool { return cores > 0 && world > cores }

// rowFor finds the row of a group.
func rowFor(world, cores int) row {
	table := spread
	if isCrowded(world, cores) {
		table = crowded
	}
	r, _ := lo.Find(table, func(r row) bool { return world <= r.ranks })
	return r
}

// tooMany declines groups for which the tables have no row. The requirements keep them away, but whoever asks gets an answer.
func tooMany(world int) (v backend.Verdict, yes bool) {
	if world <= maxWorld {
		return v, false
	}
	return backend.Declined(backend.Because(backend.WorldSize, fmt.Sprint(world), fmt.Sprintf("1 to %d", maxWorld))), true
}

package main

import "github.com/samber/lo"

// never as a row's first size of a backend is that it never serves.
const never = int64(1) << 62

// row says which backend serves which message sizes, in bytes, for up to so many ranks. shm-twoshot serves what the others
// leave.
type row struct {
	ranks     int
	flat      int64 // shm-flat: up to this
	pipelined int64 // shm-pipelined: from this on
	direct    int64 // shm-direct, in registered memory: from this on
}

// The tables below are what `./task bench:ranges -- -ranks 2,4,8` printed: float32, sum, in place, each backend in turn, the
// largest size up to which one is as fast as the other, or the smallest from which it is at least 3 % faster.

// spread is for ranks with a core each: 16 cores of a Sapphire Rapids virtual machine. More than 8 ranks are a guess.
var spread = []row{
	{2, 8 << 10, never, 64 << 10},
	{4, 2 << 10, 1 << 20, 64 << 10},
	{8, 1 << 10, 512 << 10, 64 << 10},
	{maxWorld, 512, 512 << 10, 64 << 10},
}

// crowded is for more ranks than cores, where waiting once less is switching between processes once less: 2 cores of an
// EPYC virtual machine.
var crowded = []row{
	{4, 16 << 10, never, 1 << 20},
	{maxWorld, 16 << 10, never, 1 << 20},
}

// rowFor finds the row of a group. It is taken to have a core for each rank if the number of cores is not known.
func rowFor(world, cores int) row {
	table := spread
	if cores > 0 && world > cores {
		table = crowded
	}
	r, _ := lo.Find(table, func(r row) bool { return world <= r.ranks })
	return r
}

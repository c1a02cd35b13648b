package main

import "github.com/samber/lo"

// floors are what this machine can do at best.
type floors struct {
	Cores      int         `json:"cores"`
	SwitchNS   float64     `json:"switch_ns"` // to another thread of the same core
	CopyMicros []copyFloor `json:"copy"`
}

// copyFloor is how long each of several threads at once takes to copy a message.
type copyFloor struct {
	Threads int     `json:"threads"`
	Bytes   int64   `json:"bytes"`
	Micros  float64 `json:"us"`
}

func measureFloors(cores int, ranks []int, sizes []int64) floors {
	f := floors{Cores: cores, SwitchNS: switchCore()}
	for _, threads := range lo.Uniq(lo.Map(ranks, func(n, _ int) int { return min(n, cores) })) {
		for _, bytes := range sizes {
			f.CopyMicros = append(f.CopyMicros, copyFloor{threads, bytes, copySeconds(threads, bytes) * 1e6})
		}
	}
	return f
}

// of is the least time, in µs, that an all-reduce of a cell can be expected to take, given the ns of one hand-over
// between cores. Either each rank reads all ranks' messages after one hand-over, or a part of each and the others' sums
// after two. Reading a byte is taken to cost what copying one does. Ranks that share a core take turns: a hand-over is
// then a switch for each of the others, and their work adds up. 0 if the size was not measured.
func (f floors) of(c cell, handOver float64) float64 {
	copied, ok := lo.Find(f.CopyMicros, func(x copyFloor) bool { return x.Threads == min(c.Ranks, f.Cores) && x.Bytes == c.Bytes })
	if !ok {
		return 0
	}
	phase, perCore := handOver/1e3, 1.0
	if c.Ranks > f.Cores {
		sharing := (c.Ranks + f.Cores - 1) / f.Cores
		phase, perCore = f.SwitchNS/1e3*float64(sharing-1), float64(sharing)
	}
	n := float64(c.Ranks)
	one := phase + n*copied.Micros*perCore
	two := 2*phase + (2-1/n)*copied.Micros*perCore
	return min(one, two)
}

package schedule

import (
	"github.com/weir-project/weir/core/plan"
)

// Cost is what a schedule takes, in units that do not depend on a machine. Bytes are in units of the message: 2 means that
// a rank reads or writes twice as many bytes as its buffer has. They are those of the rank that moves most.
type Cost struct {
	Rounds     int     // handovers from rank to rank that come one after the other: the longest chain of signals and waits
	Read       float64 // from anywhere
	FromOthers float64 // of those, from slots and buffers of other ranks
	Written    float64
}

// CostOf counts the steps of a schedule that Prove accepts, for messages of one full tile or more.
func CostOf(s *plan.Schedule) Cost {
	c := Cost{Rounds: rounds(s)}
	for rank, program := range s.Programs {
		var read, others, written float64
		for _, t := range program {
			if !moves(&t) {
				continue
			}
			part := 1.0
			if t.Chunk != plan.AllChunks {
				part /= float64(s.Chunks)
			}
			written += part
			read += part * float64(len(t.Srcs))
			for _, p := range t.Srcs {
				if p.Where != plan.In && p.Where != plan.Out && p.Rank != rank {
					others += part
				}
			}
		}
		c.Read, c.FromOthers, c.Written = max(c.Read, read), max(c.FromOthers, others), max(c.Written, written)
	}
	return c
}

// rounds is the longest chain within one tile.
func rounds(s *plan.Schedule) int {
	type key struct{ rank, signal int }
	given := map[key]int{} // length of the chain up to the first giving
	next, length := make([]int, len(s.Programs)), make([]int, len(s.Programs))
	longest := 0
	for progress := true; progress; {
		progress = false
		for rank, program := range s.Programs {
			for ; next[rank] < len(program); next[rank]++ {
				t := program[next[rank]]
				if t.Kind == plan.Wait && t.Lag == 0 && t.Rank != rank {
					from, ok := given[key{t.Rank, t.Signal}]
					if !ok {
						break
					}
					length[rank] = max(length[rank], from+1)
				}
				if _, again := given[key{rank, t.Signal}]; t.Kind == plan.Signal && !again {
					given[key{rank, t.Signal}] = length[rank]
				}
				longest, progress = max(longest, length[rank]), true
			}
		}
	}
	return longest
}

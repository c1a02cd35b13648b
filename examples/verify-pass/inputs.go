package main

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/weir-project/weir/core/collective"
)

// inputs are what one rank puts into the all-reduces of a pass, and what must come out. Layer l uses the elements from l
// on, so that no two layers have the same input though little memory is used.
type inputs struct {
	count   int // elements of one message
	own     []collective.BF16
	sum     []float64 // of all ranks' inputs, exact to float64
	bound   []float64 // largest error allowed for each element
	worst   float64   // largest error met so far
	allowed float64   // bound of that element
}

// newInputs draws every rank's numbers, which a rank can because they depend on the seed and the rank alone.
func newInputs(seed uint64, rank, world, count int) *inputs {
	n := count + allReduces
	in := &inputs{count: count, sum: make([]float64, n), bound: make([]float64, n)}
	for r := range world {
		random := rand.New(rand.NewPCG(seed, uint64(r)))
		values := make([]collective.BF16, n)
		for i := range values {
			values[i] = collective.NewBF16(float32(random.NormFloat64()))
			v := float64(values[i].Float32())
			in.sum[i] += v
			in.bound[i] += math.Abs(v)
		}
		if r == rank {
			in.own = values
		}
	}
	// A backend may round to bfloat16 (8 significant bits, so a relative error of 2⁻⁸) after each of the additions, and no
	// partial sum exceeds the sum of magnitudes by more than that. One that rounds once stays far below.
	for i := range in.bound {
		in.bound[i] *= float64(world) * 0x1p-8
	}
	return in
}

func (in *inputs) layer(l int) []collective.BF16 { return in.own[l : l+in.count] }

// check compares a layer's result with the sum. It remembers the largest error.
func (in *inputs) check(layer int, got []collective.BF16) error {
	for i, g := range got {
		want, bound := in.sum[layer+i], in.bound[layer+i]
		e := math.Abs(float64(g.Float32()) - want)
		if !(e <= bound) { // also for NaN
			return fmt.Errorf("wrong sum in all-reduce %d: element %d is %g, want %g within %.2g", layer, i, g.Float32(), want, bound)
		}
		if e > in.worst {
			in.worst, in.allowed = e, bound
		}
	}
	return nil
}

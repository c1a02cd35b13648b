package exec

import "github.com/weir-project/weir/core/collective"

// period is the length of the self-test's input in elements. It is prime, so that no two tiles or chunks of a message
// look alike and data that comes from the wrong place is seen.
const period = 1021

// pattern is one period of what a rank puts into a self-test. Every partial and whole result is exact in every type:
// whole numbers of at most 256 for bfloat16, products that are small, sums for avg that are multiples of the world size.
func pattern(class collective.Class, rank, world int) []byte {
	buf := aligned(int64(period * class.DataType.Size()))
	for i := range period {
		v := patternValue(class.Op, rank, world, i)
		if class.DataType.Float() {
			put(class.DataType, buf, i, float64(v))
		} else {
			putInt(class.DataType, buf, i, v)
		}
	}
	return buf
}

func patternValue(op collective.Op, rank, world, i int) int64 {
	own := int64(mix(uint64(rank)<<32|uint64(i)) >> 33) // differs between ranks
	all := int64(mix(^uint64(i)) >> 33)                 // the same on every rank
	share := max(1, 256/int64(world))                   // so that a sum stays within 256
	switch op {
	case collective.Sum:
		return own % (share + 1)
	case collective.Prod:
		return productFactor(int64(rank), int64(world), all)
	case collective.Avg:
		return averagePart(int64(rank), int64(world), share, all)
	}
	return own%101 - 50
}

// productFactor gives a few ranks, which differ from element to element, a factor other than 1: 2, 3 or -1.
func productFactor(rank, world, all int64) int64 {
	v := int64(1)
	if all&1 != 0 && rank == all>>3%world {
		v *= 2
	}
	if all&2 != 0 && rank == all>>11%world {
		v *= 3
	}
	if all&4 != 0 && rank == all>>19%world {
		v = -v
	}
	return v
}

// averagePart is the average, moved up on one rank and down on the next by as much.
func averagePart(rank, world, share, all int64) int64 {
	average := all % (share + 1)
	giver := all >> 9 % world
	move := all >> 17 % (min(average, 256-average*world) + 1)
	switch {
	case world == 1:
	case rank == giver:
		return average - move
	case rank == (giver+1)%world:
		return average + move
	}
	return average
}

// mix scatters the bits of x (the finaliser of SplitMix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

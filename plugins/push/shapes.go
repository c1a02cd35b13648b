package main

import "github.com/weir-project/weir/core/collective"

// shape is blocks and threads per block.
type shape struct{ grid, block int }

// place is a group of so many ranks, and whether several are on one GPU.
type place struct {
	world  int
	shared bool
}

func placeOf(g collective.Group) place {
	_, _, shared := g.SharedDevice()
	return place{g.WorldSize(), shared}
}

// mostBlocks is about as many as the multiprocessors of a large GPU. A smaller one runs some later: no block waits for one with
// a higher index, on any rank.
const mostBlocks = 128

// mostShared is the same where ranks share a GPU.
const mostShared = 64

// blocks are as many of a size as it takes to give every thread a number of units, within bounds.
func blocks(units, each, block, most int64) shape {
	return shape{grid: int(min(max(ceil(units, block*each), 1), most)), block: int(block)}
}

// The shapes below are from `WEIR_PUSH_SHAPES=1 WEIR_PUSH_DEVICES=4 push.test -test.run GPUShapes`, and with 2 devices and
// 1, on H200s with NVLink.

// spread gives every thread one unit as long as there are threads, in small blocks on many multiprocessors while there are few.
func spread(units int64) shape {
	block := int64(64)
	for block < 512 && units > block*mostBlocks {
		block *= 2
	}
	return blocks(units, 1, block, mostBlocks)
}

// Ranks that share a GPU wait for ever unless the blocks of all run at once. These shapes are small enough for that on a GPU of
// 132 multiprocessors and 16 ranks.

func oneShotShape(p place, bytes int64) shape {
	units := ceil(bytes, unitBytes)
	switch {
	case !p.shared:
		return spread(units)
	case units <= 64*mostShared:
		return blocks(units, 1, 64, mostShared)
	case p.world > 8:
		return blocks(units, 1, 512, 8)
	case units <= 128*mostShared:
		return blocks(units, 1, 128, mostShared)
	default:
		return blocks(units, 1, 512, 16)
	}
}

// twoShotShape is of the units of a part.
func twoShotShape(p place, bytes int64) shape {
	units := ceil(ceil(bytes, unitBytes), int64(p.world))
	if !p.shared {
		return spread(units)
	}
	return blocks(units, 1, 64, mostShared)
}

// hostTwoShotShape is slower with more threads than this: their looks at host memory fill PCIe.
func hostTwoShotShape(p place, bytes int64) shape {
	units := ceil(ceil(bytes, unitBytes), int64(p.world))
	if p.shared || units <= 4096 {
		return twoShotShape(p, bytes)
	}
	return spread(ceil(units, 2))
}

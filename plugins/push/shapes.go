package main

// shape is blocks and threads per block.
type shape struct{ grid, block int }

// The shapes are from `WEIR_PUSH_SHAPES=1 push.test -test.run GPUShapes` on an H200 with eight virtual ranks: a unit for each
// thread as long as there are few, in small blocks on many multiprocessors; then fewer threads that take several, which are no
// slower. What is sent is not waited for, so few threads can fill a link. None is so large that the blocks of the most ranks
// would not run at once on that one GPU, without which virtual ranks wait for ever.

// blocks are as many of a size as it takes to give every thread a number of units, within bounds.
func blocks(units, each, block, most int64) shape {
	return shape{grid: int(min(max(ceil(units, block*each), 1), most)), block: int(block)}
}

const mostBlocks = 64

func oneShotShape(world int, bytes int64) shape {
	units := ceil(bytes, unitBytes)
	switch {
	case units <= 64*mostBlocks:
		return blocks(units, 1, 64, mostBlocks)
	case world > 8:
		return blocks(units, 1, 512, 8)
	case units <= 128*mostBlocks:
		return blocks(units, 1, 128, mostBlocks)
	default:
		return blocks(units, 1, 512, 16)
	}
}

func twoShotShape(world int, bytes int64) shape {
	return blocks(ceil(ceil(bytes, unitBytes), int64(world)), 1, 64, mostBlocks)
}

// Through host memory a thread takes more: it waits longer, and PCIe is full sooner.

func hostOneShotShape(_ int, bytes int64) shape {
	return blocks(ceil(bytes, unitBytes), 4, 64, mostBlocks)
}

func hostTwoShotShape(world int, bytes int64) shape {
	return blocks(ceil(ceil(bytes, unitBytes), int64(world)), 2, 64, mostBlocks)
}

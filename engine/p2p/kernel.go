package p2p

import (
	_ "embed" // for the kernels
	"encoding/binary"
	"unsafe"

	"github.com/weir-project/weir/sdk/native/cuda"
)

// kernelImage is made from kernel/p2p.cu, which says how. It is PTX 7.0, which every driver since CUDA 11.0 loads.
//
//go:embed kernel/p2p.ptx
var kernelImage []byte

// The shape of every launch, and the looks at a word after which a kernel leaves though the host has not said so: the host
// says so within seconds.
const (
	blocks  = 32
	threads = 256
	looks   = 1 << 24
)

// Offsets in what a kernel and the host share, and in a kernel's report.
const (
	stopAt, beganAt    = 0, 4
	missingAt, wrongAt = 0, 4
	sharedBytes        = 8
)

const maxArguments = 8

// launch starts a kernel on the worker's stream. Every argument is 64 bits wide.
func (w *worker) launch(f cuda.Function, args ...uint64) error {
	for i, v := range args {
		w.values[i], w.pointers[i] = v, unsafe.Pointer(&w.values[i])
	}
	return w.launcher.Launch(f, blocks, threads, 0, w.stream, &w.pointers[0])
}

// fill writes the words of a pattern, as word of kernel/p2p.cu has them: with a flag the upper half of each is that.
func fill(dst []byte, seed, flag uint64) {
	for i := range len(dst) / 8 {
		binary.LittleEndian.PutUint64(dst[8*i:], expected(seed, flag, uint64(i)))
	}
}

func expected(seed, flag, i uint64) uint64 {
	x := seed + (i+1)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	if flag != 0 {
		return flag<<32 | x&0xffffffff
	}
	return x
}

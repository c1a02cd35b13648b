package reduce

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/weir-project/weir/core/collective"
)

// buffers are arrays that begin at pages, as slots and large allocations do.
func buffers(count, bytes int) []unsafe.Pointer {
	all := make([]unsafe.Pointer, count)
	for i := range all {
		_, b := array(bytes+4096, 0)
		for j := range b {
			b[j] = byte(j) & 0x3f
		}
		base := unsafe.Pointer(&b[0])
		all[i] = unsafe.Add(base, -uintptr(base)&4095)
	}
	return all
}

// BenchmarkKernel reports the bytes of one array per second: a kernel reads that from every source and writes it once.
func BenchmarkKernel(b *testing.B) {
	for _, v := range variants() {
		for _, dt := range collective.DataTypes() {
			for _, op := range []collective.Op{collective.Sum, collective.Max, collective.Avg} {
				for _, sources := range []int{2, 4, 8} {
					for _, bytes := range []int{16 << 10} {
						b.Run(fmt.Sprintf("%s/%s/%s/%d/%d", v.name, dt, op, sources, bytes), func(b *testing.B) {
							run(b, v.kernels[dt][op], dt, sources, bytes)
						})
					}
				}
			}
		}
	}
}

// BenchmarkSum is the sums of float32 and bfloat16 over the sizes.
func BenchmarkSum(b *testing.B) {
	for _, v := range variants() {
		for _, dt := range []collective.DataType{collective.Float32, collective.Float16, collective.BFloat16} {
			for _, sources := range []int{2, 3, 4, 5, 8} {
				for _, bytes := range []int{8, 64, 100, 1 << 10, 14 << 10, 84 << 10, 1 << 20, 16 << 20} {
					b.Run(fmt.Sprintf("%s/%s/%d/%d", v.name, dt, sources, bytes), func(b *testing.B) {
						run(b, v.kernels[dt][collective.Sum], dt, sources, bytes)
					})
				}
			}
		}
	}
}

// BenchmarkStreaming compares stores past the caches with ordinary ones where they are meant for: tiles of slots that
// stay in cache, reduced or copied into a destination that does not.
func BenchmarkStreaming(b *testing.B) {
	const tile, total = 64 << 10, 64 << 20
	at := buffers(9, tile)
	dst := buffers(1, total)[0]
	tiles := func(b *testing.B, name string, work func(dst unsafe.Pointer)) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(tile)
			for i := 0; b.Loop(); i++ {
				work(unsafe.Add(dst, i%(total/tile)*tile))
			}
		})
	}
	for _, v := range variants() {
		for _, sources := range []int{2, 8} {
			for name, kernels := range map[string]*table{"ordinary": &v.kernels, "streaming": &v.streams} {
				k := kernels[collective.Float32][collective.Sum]
				tiles(b, fmt.Sprintf("%s/%d/%s", v.name, sources, name), func(dst unsafe.Pointer) { k(dst, at[:sources], tile/4, 1) })
			}
		}
		for name, copies := range map[string]func(dst, src unsafe.Pointer, bytes int){"ordinary": Copy, "streaming": v.copyPastCache} {
			tiles(b, fmt.Sprintf("%s/copy/%s", v.name, name), func(dst unsafe.Pointer) { copies(dst, at[0], tile) })
		}
	}
}

func run(b *testing.B, kernel Kernel, dt collective.DataType, sources, bytes int) {
	at := buffers(sources+1, bytes)
	dst, srcs, n := at[sources], at[:sources], bytes/dt.Size()
	b.SetBytes(int64(bytes))
	for b.Loop() {
		kernel(dst, srcs, n, sources)
	}
}

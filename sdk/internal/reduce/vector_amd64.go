//go:build amd64 && !race

package reduce

import (
	"unsafe"

	"golang.org/x/sys/cpu"

	"github.com/weir-project/weir/core/collective"
)

// variants are those that this processor can run, the best first.
func variants() []variant {
	var all []variant
	x := &cpu.X86
	if x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL && x.HasBMI2 {
		all = append(all, avx512())
	}
	if x.HasAVX2 && x.HasF16C {
		all = append(all, avx2())
	}
	return append(all, plain())
}

// row is the kernels of a type in the order of the ops.
type row = [collective.NumOps]Kernel

func avx2() variant {
	v := plain()
	v.name, v.copyPastCache = "avx2", copyStreamAVX2
	v.set(collective.Float32, row{f32SumAVX2, f32ProdAVX2, f32MinAVX2, f32MaxAVX2, average(f32SumAVX2, f32AvgAVX2)})
	v.set(collective.Float64, row{f64SumAVX2, f64ProdAVX2, f64MinAVX2, f64MaxAVX2, average(f64SumAVX2, f64AvgAVX2)})
	v.set(collective.Float16, row{f16SumAVX2, f16ProdAVX2, f16MinAVX2, f16MaxAVX2, average(f16SumAVX2, f16AvgAVX2)})
	v.set(collective.BFloat16, row{bf16SumAVX2, bf16ProdAVX2, bf16MinAVX2, bf16MaxAVX2, average(bf16SumAVX2, bf16AvgAVX2)})
	v.set(collective.Int8, row{i8SumAVX2, nil, i8MinAVX2, i8MaxAVX2, quotient[int8](i8SumAVX2)})
	v.set(collective.Uint8, row{i8SumAVX2, nil, u8MinAVX2, u8MaxAVX2, quotient[uint8](i8SumAVX2)})
	v.set(collective.Int32, row{i32SumAVX2, i32ProdAVX2, i32MinAVX2, i32MaxAVX2, quotient[int32](i32SumAVX2)})
	v.set(collective.Int64, row{i64SumAVX2, nil, i64MinAVX2, i64MaxAVX2, quotient[int64](i64SumAVX2)})
	v.stream(f32SumStreamAVX2, collective.Float32)
	v.stream(f64SumStreamAVX2, collective.Float64)
	v.stream(f16SumStreamAVX2, collective.Float16)
	v.stream(bf16SumStreamAVX2, collective.BFloat16)
	v.stream(i8SumStreamAVX2, collective.Int8, collective.Uint8)
	v.stream(i32SumStreamAVX2, collective.Int32)
	v.stream(i64SumStreamAVX2, collective.Int64)
	return v
}

func avx512() variant {
	v := plain()
	v.name, v.copyPastCache = "avx512", copyStreamAVX512
	v.set(collective.Float32, row{f32SumAVX512, f32ProdAVX512, f32MinAVX512, f32MaxAVX512, average(f32SumAVX512, f32AvgAVX512)})
	v.set(collective.Float64, row{f64SumAVX512, f64ProdAVX512, f64MinAVX512, f64MaxAVX512, average(f64SumAVX512, f64AvgAVX512)})
	v.set(collective.Float16, row{f16SumAVX512, f16ProdAVX512, f16MinAVX512, f16MaxAVX512, average(f16SumAVX512, f16AvgAVX512)})
	v.set(collective.BFloat16, row{bf16SumAVX512, bf16ProdAVX512, bf16MinAVX512, bf16MaxAVX512, average(bf16SumAVX512, bf16AvgAVX512)})
	v.set(collective.Int8, row{i8SumAVX512, nil, i8MinAVX512, i8MaxAVX512, quotient[int8](i8SumAVX512)})
	v.set(collective.Uint8, row{i8SumAVX512, nil, u8MinAVX512, u8MaxAVX512, quotient[uint8](i8SumAVX512)})
	v.set(collective.Int32, row{i32SumAVX512, i32ProdAVX512, i32MinAVX512, i32MaxAVX512, quotient[int32](i32SumAVX512)})
	v.set(collective.Int64, row{i64SumAVX512, nil, i64MinAVX512, i64MaxAVX512, quotient[int64](i64SumAVX512)})
	v.stream(f32SumStreamAVX512, collective.Float32)
	v.stream(f64SumStreamAVX512, collective.Float64)
	v.stream(f16SumStreamAVX512, collective.Float16)
	v.stream(bf16SumStreamAVX512, collective.BFloat16)
	v.stream(i8SumStreamAVX512, collective.Int8, collective.Uint8)
	v.stream(i32SumStreamAVX512, collective.Int32)
	v.stream(i64SumStreamAVX512, collective.Int64)
	return v
}

// set takes the kernels of a type into the variant; those that are nil stay in plain Go.
func (v *variant) set(dt collective.DataType, kernels row) {
	for op, k := range kernels {
		if k != nil {
			v.kernels[dt][op], v.streams[dt][op] = k, k
		}
	}
}

// stream sets the sum past the caches.
func (v *variant) stream(sum Kernel, types ...collective.DataType) {
	for _, dt := range types {
		v.streams[dt][collective.Sum] = sum
	}
}

// average divides only where there is something to divide by: adding alone is faster.
func average(sum, avg Kernel) Kernel {
	return func(dst unsafe.Pointer, srcs []unsafe.Pointer, n, divide int) {
		if divide == 1 {
			sum(dst, srcs, n, 1)
			return
		}
		avg(dst, srcs, n, divide)
	}
}

// quotient is the average of integers, for whose division there is no vector instruction.
func quotient[T number](sum Kernel) Kernel {
	return func(dst unsafe.Pointer, srcs []unsafe.Pointer, n, divide int) {
		sum(dst, srcs, n, 1)
		if divide != 1 {
			quotients(elements[T](dst, 0, n), divide)
		}
	}
}

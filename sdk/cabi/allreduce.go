//go:build cgo

package main

// #include "weir.h"
import "C"

import (
	"math"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/cabi/internal/handle"
	"github.com/weir-project/weir/sdk/rank"
)

// Addresses are numbers until they are known to be ones that memory can have: Go ends the process if it meets a pointer
// that cannot be.

// What is out of range stays so, and is then refused as the other ranks will be told.
func dataTypeOf(n C.int32_t) collective.DataType {
	return collective.DataType(min(uint32(n), math.MaxUint8))
}

func opOf(n C.int32_t) collective.Op { return collective.Op(min(uint32(n), math.MaxUint8)) }

//export weirAllReduce
func weirAllReduce(h C.weir_group, dst, src C.uintptr_t, count C.int64_t, dataType, op C.int32_t, to *C.char) (code C.weir_result) {
	const what = "weir_all_reduce"
	defer survive(to, what, &code)
	g, err := groups.Get(handle.Handle(h))
	if err != nil {
		return report(to, what, err)
	}
	if err := rank.AllReduceHost(g.Group, uintptr(dst), uintptr(src), int64(count), dataTypeOf(dataType), opOf(op)); err != nil {
		return report(to, what, err)
	}
	return C.WEIR_OK
}

//export weirAllReduceDevice
func weirAllReduceDevice(h C.weir_group, dst, src C.uintptr_t, count C.int64_t, dataType, op C.int32_t, stream C.uintptr_t, to *C.char) (code C.weir_result) {
	const what = "weir_all_reduce_device"
	defer survive(to, what, &code)
	g, err := groups.Get(handle.Handle(h))
	if err != nil {
		return report(to, what, err)
	}
	if err := rank.AllReduceDevice(g.Group, uintptr(dst), uintptr(src), int64(count), dataTypeOf(dataType), opOf(op), uintptr(stream)); err != nil {
		return report(to, what, err)
	}
	return C.WEIR_OK
}

//go:build cgo

package main

// #include "weir.h"
import "C"

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/cabi/internal/handle"
	"github.com/weir-project/weir/sdk/rank"
)

//export weirSplit
func weirSplit(h C.weir_group, color, key C.int32_t, timeout C.int64_t, out *C.weir_group, to *C.char) (code C.weir_result) {
	const what = "weir_split"
	defer survive(to, what, &code)
	g, err := groups.Get(handle.Handle(h))
	if err != nil {
		return report(to, what, err)
	}
	ctx, cancel := within(timeout)
	defer cancel()
	part, err := g.Split(ctx, int(color), int(key))
	if err != nil || part == nil {
		return report(to, what, err)
	}
	return report(to, what, put(part, g.session, out))
}

//export weirClose
func weirClose(h C.weir_group, to *C.char) (code C.weir_result) {
	const what = "weir_close"
	defer survive(to, what, &code)
	g, err := groups.Get(handle.Handle(h))
	if err != nil {
		return report(to, what, err)
	}
	if err = g.Close(); !errors.Is(err, rank.ErrBusy) {
		err = errors.Join(err, groups.Remove(handle.Handle(h)))
	}
	return report(to, what, err)
}

//export weirAbort
func weirAbort(h C.weir_group, reason, to *C.char) (code C.weir_result) {
	const what = "weir_abort"
	defer survive(to, what, &code)
	g, err := groups.Get(handle.Handle(h))
	if err == nil {
		g.Abort(C.GoString(reason))
	}
	return report(to, what, err)
}

//export weirRank
func weirRank(h C.weir_group, out *C.int32_t, to *C.char) (code C.weir_result) {
	const what = "weir_rank"
	defer survive(to, what, &code)
	g, err := groups.Get(handle.Handle(h))
	if err != nil {
		return report(to, what, err)
	}
	*out = C.int32_t(g.Rank())
	return C.WEIR_OK
}

//export weirSize
func weirSize(h C.weir_group, out *C.int32_t, to *C.char) (code C.weir_result) {
	const what = "weir_size"
	defer survive(to, what, &code)
	g, err := groups.Get(handle.Handle(h))
	if err != nil {
		return report(to, what, err)
	}
	*out = C.int32_t(g.Size())
	return C.WEIR_OK
}

//export weirRanks
func weirRanks(h C.weir_group, out *C.int32_t, count C.int32_t, to *C.char) (code C.weir_result) {
	const what = "weir_ranks"
	defer survive(to, what, &code)
	g, err := groups.Get(handle.Handle(h))
	if err != nil {
		return report(to, what, err)
	}
	if int(count) != g.Size() {
		return report(to, what, fmt.Errorf("%w: %d places for the ranks of a group of %d", errInvalid, count, g.Size()))
	}
	for i, r := range g.Ranks() {
		unsafe.Slice(out, count)[i] = C.int32_t(r)
	}
	return C.WEIR_OK
}

//export weirWarm
func weirWarm(h C.weir_group, classes *C.weir_class, count C.int32_t, timeout C.int64_t, to *C.char) (code C.weir_result) {
	const what = "weir_warm"
	defer survive(to, what, &code)
	g, err := groups.Get(handle.Handle(h))
	if err != nil {
		return report(to, what, err)
	}
	if count > collective.NumClasses {
		return report(to, what, fmt.Errorf("%w: %d classes, of %d that there are", errInvalid, count, collective.NumClasses))
	}
	wanted := make([]collective.Class, count)
	for i, c := range unsafe.Slice(classes, count) {
		if wanted[i], err = classOf(c); err != nil {
			return report(to, what, err)
		}
	}
	ctx, cancel := within(timeout)
	defer cancel()
	return report(to, what, g.Warm(ctx, wanted...))
}

// classOf is a request class of C's.
func classOf(c C.weir_class) (collective.Class, error) {
	for _, n := range []C.int32_t{c.memory, c.data_type, c.op} {
		if n < 0 || n > math.MaxUint8 {
			return collective.Class{}, fmt.Errorf("%w: request class with the number %d", errInvalid, n)
		}
	}
	if c.captured != 0 && c.captured != 1 {
		return collective.Class{}, fmt.Errorf("%w: request class with captured = %d", errInvalid, c.captured)
	}
	class := collective.Class{Memory: collective.Memory(c.memory), DataType: collective.DataType(c.data_type), Op: collective.Op(c.op), Captured: c.captured == 1}
	if err := class.Validate(); err != nil {
		return class, fmt.Errorf("%w: %w", errInvalid, err)
	}
	return class, nil
}

//export weirBackend
func weirBackend(h C.weir_group, class *C.weir_class, bytes C.int64_t, name *C.char, size C.size_t, to *C.char) (code C.weir_result) {
	const what = "weir_backend"
	defer survive(to, what, &code)
	g, err := groups.Get(handle.Handle(h))
	if err != nil {
		return report(to, what, err)
	}
	c, err := classOf(*class)
	if err != nil {
		return report(to, what, err)
	}
	text := g.Backend(c, int64(bytes))
	n := min(len(text), int(min(size, 1<<30))-1)
	room := unsafe.Slice((*byte)(unsafe.Pointer(name)), n+1)
	copy(room, text[:n])
	room[n] = 0
	return C.WEIR_OK
}

//export weirGroupError
func weirGroupError(h C.weir_group, to *C.char) (code C.weir_result) {
	const what = "weir_group_error"
	defer survive(to, what, &code)
	g, err := groups.Get(handle.Handle(h))
	if err == nil {
		err = g.Err()
	}
	return report(to, what, err)
}

//export weirExchange
func weirExchange(h C.weir_group, data unsafe.Pointer, bytes C.size_t, all unsafe.Pointer, timeout C.int64_t, to *C.char) (code C.weir_result) {
	const what = "weir_exchange"
	defer survive(to, what, &code)
	g, err := groups.Get(handle.Handle(h))
	if err != nil {
		return report(to, what, err)
	}
	ctx, cancel := within(timeout)
	defer cancel()
	parts, err := g.Exchange(ctx, C.GoBytes(data, C.int(bytes)))
	if err != nil {
		return report(to, what, err)
	}
	for r, p := range parts {
		if len(p) != int(bytes) {
			return report(to, what, fmt.Errorf("rank %d gave %d bytes, this one %d", r, len(p), int(bytes)))
		}
	}
	for r, p := range parts {
		copy(unsafe.Slice((*byte)(unsafe.Add(all, r*int(bytes))), int(bytes)), p)
	}
	return C.WEIR_OK
}

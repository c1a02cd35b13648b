package rank

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/sdk/internal/device"
	"github.com/weir-project/weir/sdk/internal/exec"
	"github.com/weir-project/weir/sdk/native/cuda"
	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// AllReduceDevice combines count elements at src over all ranks of the group into every rank's dst, in the order of a CUDA
// stream. dst and src are addresses in the memory of the device that the rank joined with (Options.Device), the same one
// or without overlap; stream is a CUstream of the device's primary context, which is the CUDA runtime's, or 0 for the
// legacy default stream. It returns when the work is enqueued: dst holds the result once the stream has come that far.
//
// The first call of a data type and op is decided for the whole group, which takes seconds if a library must be tried. A
// call on a stream that is being captured becomes part of the graph, and its class (with Captured) must have been decided
// by Warm before the capture began; otherwise it fails and the capture goes on without it.
//
// It may be called from any thread and leaves the thread's current context as it was. Like any call on a group it must not
// be begun before the last one has returned. What goes wrong on the device after it has returned makes the group fail: see
// Group.Err, which does not wait for the device. The buffers are then undefined.
func AllReduceDevice(g *Group, dst, src uintptr, count int64, dataType collective.DataType, op collective.Op, stream uintptr) error {
	if !g.enter() {
		return g.busyError()
	}
	if g.like(dst, src, count, dataType, op, stream) {
		return g.runAgain()
	}
	err := g.runDevice(dst, src, count, dataType, op, stream)
	g.exit()
	return err
}

// runAgain makes a call that is like the last one, and gives the group back. This and what it calls is the usual path: no lock, no allocation, and
// as few cache lines as can be.
func (g *Group) runAgain() error {
	if e := g.dead.Load(); e != nil {
		g.exit()
		return e
	}
	g.calls++
	number := g.calls
	g.part.Begin(number, g.what) // before the call, which may wait for the peers' first: they compare
	if captured, err := g.library.Again(); captured || err != nil {
		return g.notAgain(number, captured, err)
	}
	g.part.Count(number, g.counter, g.bytes)
	g.part.End(number, &g.busy, idle)
	return nil
}

// notAgain is the end of a call like the last one that did not go as that did.
func (g *Group) notAgain(number uint64, captured bool, err error) error {
	defer g.exit()
	class := collective.Class{Memory: collective.CUDA, DataType: g.dataType, Op: g.op}
	call := exec.DeviceCall{Class: class, Dst: g.dst, Src: g.src, Bytes: int64(g.bytes), Stream: cuda.Stream(g.stream)}
	call.Class.Registered = len(g.deviceMemory) > 0 && g.onDeviceRegistered(call.Dst, call.Src, call.Bytes)
	g.forget()
	if captured {
		return g.runCaptured(call, number, nil)
	}
	return g.failedCall(number, err)
}

const noDevice = "this rank joined without a device; name one in rank.Options.Device or " + EnvDevice

// checkDevice finds what this rank can see to be wrong with a call without asking the driver.
func (g *Group) checkDevice(class collective.Class, dst, src uintptr, count int64) error {
	size := int64(class.DataType.Size())
	switch {
	case g.session.gpu == nil:
		return errors.New(noDevice)
	case size == 0:
		return fmt.Errorf("unknown data type %s", class.DataType)
	case !class.Op.Valid():
		return fmt.Errorf("unknown reduce op %s", class.Op)
	case (dst|src)%uintptr(size) != 0:
		return fmt.Errorf("a buffer does not begin at a multiple of %d bytes, the size of %s", size, class.DataType)
	}
	if err := checkCount(dst, src, count, size); err != nil {
		return err
	}
	if d, s, n := dst, src, uintptr(count*size); d != s && d < s+n && s < d+n {
		return errors.New("dst and src overlap in part; they must be the same or apart")
	}
	return nil
}

// runDevice makes a call of which nothing is known. For a decided class it takes no lock either, allocates nothing and calls
// the driver twice beside the library.
func (g *Group) runDevice(dst, src uintptr, count int64, dataType collective.DataType, op collective.Op, on uintptr) error {
	g.forget()
	class := collective.Class{Memory: collective.CUDA, DataType: dataType, Op: op}
	bytes, stream := count*int64(dataType.Size()), cuda.Stream(on)
	if err := g.checkDevice(class, dst, src, count); err != nil {
		return g.refuse(err)
	}
	if e := g.dead.Load(); e != nil {
		return e
	}
	if len(g.deviceMemory) > 0 {
		class.Registered = g.onDeviceRegistered(dst, src, bytes)
	}
	g.calls++
	number, index := g.calls, class.Index()
	if err := g.met(dst, src, bytes, stream); err != nil {
		return g.unmet(number, err)
	}
	call := exec.DeviceCall{Class: class, Dst: dst, Src: src, Bytes: bytes, Stream: stream}
	t := g.tables[index].Load()
	if t == nil { // it may be captured, which only the driver knows
		if captured, err := g.capturing(stream); err != nil || captured {
			return g.runCaptured(call, number, err)
		}
		g.board.Begin(g.rank, number, index, bytes)
		var err error
		if t, err = g.decide(class); err != nil {
			return g.ended(number, err)
		}
	}
	e := g.find(t, bytes)
	if e == nil {
		g.board.Begin(g.rank, number, index, bytes)
		return g.ended(number, notServed(t, class, bytes))
	}
	// Published before the call, which may wait for the peers' first: they compare.
	g.board.Begin(g.rank, number, index, bytes)
	g.board.By(g.rank, number, e.counter)
	captured, err := e.device.Run(call)
	switch {
	case captured:
		return g.runCaptured(call, number, nil)
	case err != nil:
		return g.failedCall(number, err)
	}
	g.board.Count(g.rank, e.counter, bytes)
	g.board.End(g.rank, number)
	g.dst, g.src, g.count, g.stream, g.dataType, g.op = dst, src, count, on, dataType, op
	g.library = e.library // nil for a kernel plan, whose calls are never repeated without a look
	g.counter, g.what, g.bytes = e.counter, rankv1.WhatOf(index, bytes), uint64(bytes)
	return nil
}

// InCall reports whether a call on the group is in progress.
func (g *Group) InCall() bool { return atomic.LoadUint64(&g.busy) == inCall }

// find is the entry that serves a byte count; nil if none does.
func (g *Group) find(t *table, bytes int64) *entry {
	if t != g.lastTable || bytes != g.lastBytes {
		i := t.lookup.Lookup(bytes)
		if i == dispatch.None {
			return nil
		}
		g.lastTable, g.lastBytes, g.lastEntry = t, bytes, &t.entries[i]
	}
	return g.lastEntry
}

// unmet ends a call of which met has an error.
func (g *Group) unmet(number uint64, err error) error {
	g.board.Reject(g.rank, number)
	why := fmt.Errorf("all-reduce %d of group %s: %w", number, g.id, err)
	if device.Unfit(err) {
		return refusal{why}
	}
	return why
}

// met refuses buffers and streams that the device cannot use.
func (g *Group) met(dst, src uintptr, bytes int64, stream cuda.Stream) error {
	if g.checker == nil {
		g.checker = device.NewChecker(g.session.gpu.device)
	}
	if err := g.checker.Stream(stream); err != nil {
		return err
	}
	if err := g.checker.Buffer("dst", dst, bytes); err != nil {
		return err
	}
	return g.checker.Buffer("src", src, bytes)
}

// capturing asks the driver whether a stream is being captured.
func (g *Group) capturing(stream cuda.Stream) (captured bool, err error) {
	d := g.session.gpu.device
	err = d.Do(func() error {
		c, err := d.API.CaptureInfo(stream)
		captured = c.Status != cuda.NotCapturing
		return err
	})
	return captured, err
}

// runCaptured makes a call part of a graph.
func (g *Group) runCaptured(call exec.DeviceCall, number uint64, err error) error {
	call.Class.Captured = true
	class := call.Class
	if err != nil {
		return g.unmet(number, err)
	}
	t := g.tables[class.Index()].Load()
	if t == nil {
		g.board.Reject(g.rank, number)
		return fmt.Errorf("all-reduce %d of group %s: the stream is being captured and class %q has not been decided; call Warm with it before the capture begins",
			number, g.id, class)
	}
	g.board.Begin(g.rank, number, class.Index(), call.Bytes)
	e := g.find(t, call.Bytes)
	if e == nil {
		return g.ended(number, notServed(t, class, call.Bytes))
	}
	g.board.By(g.rank, number, e.counter)
	if err := e.device.RunCaptured(call); err != nil {
		return g.failedCall(number, err)
	}
	g.board.Count(g.rank, e.counter, call.Bytes)
	g.board.End(g.rank, number)
	return nil
}

// failedCall is the error of a call that the driver or the library refused. The peers have made it or will, so the group
// cannot go on.
func (g *Group) failedCall(number uint64, err error) error {
	if errors.Is(err, exec.ErrOver) {
		return g.aborted()
	}
	return g.broken(number, fmt.Errorf("rank %d: all-reduce %d: %w", g.rank, number, err))
}

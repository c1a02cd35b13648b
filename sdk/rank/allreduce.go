package rank

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/sdk/internal/exec"
	"github.com/weir-project/weir/sdk/internal/ordered"
	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// AllReduce combines src over all ranks of the group into every rank's dst, element by element. dst and src have the
// same length on every rank and are either the same slice or do not overlap. It returns when dst holds the result.
//
// The first call of a data type and op is decided for the whole group, which takes milliseconds; the ones after it only
// look the decision up. A call that a peer does not match fails on every rank within the group's deadline.
func AllReduce[T collective.Element](g *Group, dst, src []T, op collective.Op) error {
	var zero T
	if len(dst) != len(src) {
		return g.reject(fmt.Errorf("dst has %d elements and src %d", len(dst), len(src)))
	}
	class := collective.Class{DataType: collective.DataTypeOf[T](), Op: op}
	return g.call(class, unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(src)), int64(len(src))*int64(unsafe.Sizeof(zero)))
}

// AllReduceBytes is AllReduce on raw memory holding elements of the given type.
func AllReduceBytes(g *Group, dst, src []byte, dataType collective.DataType, op collective.Op) error {
	size := dataType.Size()
	switch {
	case size == 0:
		return g.reject(fmt.Errorf("unknown data type %s", dataType))
	case len(dst) != len(src):
		return g.reject(fmt.Errorf("dst has %d bytes and src %d", len(dst), len(src)))
	case len(src)%size != 0:
		return g.reject(fmt.Errorf("%d bytes are not a whole number of %s elements", len(src), dataType))
	}
	d, s := unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(src))
	if (uintptr(d)|uintptr(s))%uintptr(size) != 0 {
		return g.reject(fmt.Errorf("a buffer does not begin at a multiple of %d bytes, the size of %s", size, dataType))
	}
	return g.call(collective.Class{DataType: dataType, Op: op}, d, s, int64(len(src)))
}

// call is the hot path: once the class is decided it takes no lock, allocates nothing and makes no system call of its
// own.
func (g *Group) call(class collective.Class, dst, src unsafe.Pointer, bytes int64) error {
	if err := check(class, dst, src, bytes); err != nil {
		return g.reject(err)
	}
	if !g.enter() {
		return g.busyError()
	}
	err := g.run(class, dst, src, bytes)
	runtime.KeepAlive(dst)
	runtime.KeepAlive(src)
	g.exit()
	return err
}

func (g *Group) run(class collective.Class, dst, src unsafe.Pointer, bytes int64) error {
	if e := g.dead.Load(); e != nil {
		return e
	}
	if len(g.windows) > 0 {
		class.Registered = g.registered(dst, src, bytes)
	}
	g.calls++
	number, index := g.calls, class.Index()
	g.board.Begin(g.rank, number, index, bytes)
	if number >= atomic.LoadUint64(&g.gate) { // loaded after enter, which is a full barrier: see setGate
		if err := g.atGate(number); err != nil {
			return err
		}
	}
	t := g.tables[index].Load()
	if t == nil {
		var err error
		if t, err = g.decide(class); err != nil {
			return g.ended(number, err)
		}
	}
	if t != g.lastTable || bytes != g.lastBytes { // most calls are like the one before
		i := t.lookup.Lookup(bytes)
		if i == dispatch.None {
			return g.ended(number, notServed(t, class, bytes))
		}
		g.lastTable, g.lastBytes, g.lastEntry = t, bytes, &t.entries[i]
	}
	e := g.lastEntry
	g.board.By(g.rank, number, e.counter)
	call := exec.Call{Class: class, Dst: dst, Src: src, Bytes: bytes, Number: number}
	if e.run == nil {
		return g.runWorker(e, call)
	}
	var err error
	if number%rankv1.SampleEvery == 0 {
		start := time.Now()
		err = e.run.Run(call)
		g.board.Sample(g.rank, e.counter, int64(time.Since(start)))
	} else {
		err = e.run.Run(call)
	}
	if err != nil {
		return g.broken(number, err)
	}
	g.board.Count(g.rank, e.counter, bytes)
	g.board.End(g.rank, number)
	return nil
}

func (g *Group) ended(number uint64, err error) error {
	g.board.End(g.rank, number)
	return err
}

// check finds what this rank alone can see to be wrong with a call.
func check(class collective.Class, dst, src unsafe.Pointer, bytes int64) error {
	if !class.Op.Valid() {
		return fmt.Errorf("unknown reduce op %s", class.Op)
	}
	if bytes == 0 {
		return fmt.Errorf("no elements")
	}
	d, s, n := uintptr(dst), uintptr(src), uintptr(bytes)
	if d != s && d < s+n && s < d+n {
		return fmt.Errorf("dst and src overlap in part; they must be the same or apart")
	}
	return nil
}

// reject refuses a call. It counts as one, so that ranks that all refuse it stay in step, and is published, so that
// ranks that do not are told.
func (g *Group) reject(why error) error {
	if !g.enter() {
		return g.busyError()
	}
	defer g.exit()
	return g.refuse(why)
}

// refuse is reject of a call that has begun.
func (g *Group) refuse(why error) error {
	if e := g.dead.Load(); e != nil {
		return e
	}
	g.calls++
	g.board.Reject(g.rank, g.calls)
	return refusal{fmt.Errorf("all-reduce %d of group %s: %w", g.calls, g.id, why)}
}

// refusal is an error that is ErrRefused.
type refusal struct{ error }

func (r refusal) Is(target error) bool { return target == ErrRefused }

func (r refusal) Unwrap() error { return r.error }

// enter takes the group for one call, if nobody has it.
func (g *Group) enter() bool { return atomic.CompareAndSwapUint64(&g.busy, idle, inCall) }

// exit gives the group back.
func (g *Group) exit() { ordered.Store64(&g.busy, idle) }

func (g *Group) busyError() error {
	if atomic.LoadUint64(&g.busy) == shut {
		return fmt.Errorf("all-reduce on group %s: %w", g.id, ErrClosed)
	}
	return fmt.Errorf("all-reduce on group %s: %w; a group takes one at a time, use NewGroup for more", g.id, ErrBusy)
}

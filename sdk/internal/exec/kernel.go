package exec

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/internal/device"
	"github.com/weir-project/weir/sdk/native/cuda"
)

// Kernel is one rank's part in a kernel plan: the module, the buffers of all ranks as this one reaches them, and the words
// that the kernels and the host share. All the group's classes with the same plan use it. It takes one call at a time,
// which its group sees to. What kernels are given and must do is in sdk/kernel/weir_kernel.h.
type Kernel struct {
	device *device.Device
	rank   int
	world  int
	plan   *plan.Kernel // but for the image

	call  kernelCall // of the next launch, which the driver copies
	rows  [collective.NumDataTypes][]kernelRow
	last  lastCall
	count uint32 // launches so far
	order *Order

	own     *os.File       // of the buffer, for the peers
	spare   cuda.GraphExec // of one kernel
	closers []func() error

	busy    func() bool // the group is in a call
	over    atomic.Bool // no call may begin any more
	trying  atomic.Bool // a self-test is going on, which has deadlines of its own
	watch   kernelWatch
	pins    pins
	ending  sync.Once
	ended   chan struct{} // closed when nothing uses the device any more
	patient time.Duration // how long a rank may wait on the device
}

// kernelRow is a row of the launch table, ready to be launched.
type kernelRow struct {
	min, max int64
	dispatch cuda.Dispatch
	args     []unsafe.Pointer // into the Kernel's call
}

// lastCall is what need not be worked out again when a call is like the one before.
type lastCall struct {
	class collective.Class
	bytes int64
	row   *kernelRow
}

// kernelCall is weir_call, and after it what functions with other arguments are given.
type kernelCall struct {
	version, rank, world, hash uint32
	id, _                      uint32
	count                      uint64
	in, out                    uintptr
	control, status            uintptr
	bufferBytes                uint64
	buffers                    [plan.MaxKernelRanks]uintptr

	table uintptr // of buffers, in device memory
	null  uintptr
}

// kernelStatus is weir_status, in page-locked memory.
type kernelStatus struct {
	abort   uint32
	fault   uint32
	waiting uint64
	_       [28]uint32
}

const (
	headerVersion = 1   // WEIR_KERNEL_VERSION
	controlBytes  = 128 // of weir_control
	statusBytes   = 128

	maxHash   = 4095
	graphNode = 1 << 31 // in the id of a launch: it is part of a graph
)

// Run makes a call on the caller's stream, after the group's last one, from any thread, whose own context it leaves as it
// was. When the stream is being captured it does nothing and says so: make the call with RunCaptured then. It takes no lock
// and allocates nothing. A call without elements takes part as any other.
func (k *Kernel) Run(c DeviceCall) (captured bool, err error) {
	if k.over.Load() {
		return false, ErrOver
	}
	d := k.fill(c)
	if d == nil {
		return false, k.unserved(c)
	}
	k.call.id = k.nextID()
	status, err := k.order.launch(d, c.Stream)
	return status != cuda.NotCapturing, err
}

// RunCaptured makes a call that becomes part of the graph that the stream is captured into, after the group's last one in
// the same capture. The plan's memory stays until that graph, and all that was instantiated from it, are destroyed.
func (k *Kernel) RunCaptured(c DeviceCall) error {
	if k.over.Load() {
		return ErrOver
	}
	return k.capture(c, func(capture cuda.Capture) error {
		if err := k.pins.pin(k.device.API, capture); err != nil {
			return fmt.Errorf("tie the plan to the graph: %w", err)
		}
		return nil
	})
}

// capture makes a call part of a graph; pin comes first.
func (k *Kernel) capture(c DeviceCall, pin func(cuda.Capture) error) error {
	d := k.fill(c)
	if d == nil {
		return k.unserved(c)
	}
	k.call.id = k.nextID() | graphNode
	return k.device.Do(func() error { return k.order.capture(d, c.Stream, pin) })
}

// nextID is never 0 and without the bit that tells graph nodes.
func (k *Kernel) nextID() uint32 {
	if k.count = (k.count + 1) &^ graphNode; k.count == 0 {
		k.count = 1
	}
	return k.count
}

// fill writes what the kernel is given and returns how to launch it; nil if no row of the table serves the call.
func (k *Kernel) fill(c DeviceCall) *cuda.Dispatch {
	if k.last.row == nil || c.Bytes != k.last.bytes || c.Class != k.last.class {
		row := find(k.rows[c.Class.DataType], c.Bytes)
		if row == nil {
			return nil
		}
		k.last = lastCall{c.Class, c.Bytes, row}
		k.call.hash, k.call.count = callHash(c.Class, c.Bytes), uint64(c.Bytes)/uint64(c.Class.DataType.Size())
	}
	k.call.in, k.call.out = c.Src, c.Dst
	return &k.last.row.dispatch
}

// find is the row for a byte count: for none, the one of the fewest.
func find(rows []kernelRow, bytes int64) *kernelRow {
	for i := range rows {
		if r := &rows[i]; bytes >= r.min && bytes <= r.max || bytes == 0 && i == 0 {
			return r
		}
	}
	return nil
}

// callHash is 1 to 4095, the same on all ranks for the same call; whether it is captured does not matter.
func callHash(c collective.Class, bytes int64) uint32 {
	c.Captured = false
	x := uint64(c.Index())<<48 ^ uint64(bytes)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9 // SplitMix64
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return 1 + uint32((x^x>>31)%maxHash)
}

func (k *Kernel) unserved(c DeviceCall) error {
	return fmt.Errorf("the kernel plan has no row for %s of %d bytes", c.Class.DataType, c.Bytes)
}

// argument is where the driver finds an argument of a function.
func (k *Kernel) argument(a plan.Argument) unsafe.Pointer {
	c := &k.call
	switch a {
	case plan.ArgIn:
		return unsafe.Pointer(&c.in)
	case plan.ArgOut:
		return unsafe.Pointer(&c.out)
	case plan.ArgCount:
		return unsafe.Pointer(&c.count)
	case plan.ArgRank:
		return unsafe.Pointer(&c.rank)
	case plan.ArgWorld:
		return unsafe.Pointer(&c.world)
	case plan.ArgHash:
		return unsafe.Pointer(&c.hash)
	case plan.ArgID:
		return unsafe.Pointer(&c.id)
	case plan.ArgBuffers:
		return unsafe.Pointer(&c.table)
	case plan.ArgControl:
		return unsafe.Pointer(&c.control)
	case plan.ArgStatus:
		return unsafe.Pointer(&c.status)
	}
	return unsafe.Pointer(&c.null)
}

// errNotReady is a plan whose ranks have not connected.
var errNotReady = errors.New("the kernel plan was never connected")

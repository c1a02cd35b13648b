package exec

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/internal/device"
	"github.com/weir-project/weir/sdk/native/cuda"
)

// KernelOptions are what a kernel plan is prepared with.
type KernelOptions struct {
	Device   *device.Device
	Group    collective.Group
	Rank     int
	Host     []byte        // of a plan with buffers in host memory: those of all ranks; it becomes the Kernel's
	Unmap    func() error  // ends the mapping of Host
	Order    *Order        // of the group
	Deadline time.Duration // of a call
	Busy     func() bool   // the group is in a call
}

// OpenKernel loads the plan's module and takes its memory. It returns what Connect of every rank needs: bytes, and a file
// if other processes must map the buffer, which the caller closes when it has been sent.
func OpenKernel(p *plan.Kernel, o KernelOptions) (*Kernel, []byte, *os.File, error) {
	rest := *p
	rest.Image = nil
	k := &Kernel{
		device: o.Device, rank: o.Rank, world: o.Group.WorldSize(), plan: &rest, order: o.Order,
		busy: o.Busy, ended: make(chan struct{}), patient: o.Deadline,
	}
	k.call = kernelCall{version: headerVersion, rank: uint32(o.Rank), world: uint32(k.world), bufferBytes: uint64(p.BufferBytes)}
	if o.Unmap != nil {
		k.onClose(o.Unmap)
	}
	var offer []byte
	err := checkDriver(p, o.Device)
	if err == nil {
		err = o.Device.Do(func() error {
			if err := k.load(p, o.Group); err != nil {
				return err
			}
			if err := errors.Join(k.words(), k.exec()); err != nil {
				return fault(backend.InitFailed, "%w", err)
			}
			made, err := k.buffer(o.Group, o.Host)
			if err != nil {
				return fault(backend.InitFailed, "a buffer of %d bytes for the kernels: %w", p.BufferBytes, err)
			}
			offer, err = json.Marshal(made)
			return err
		})
	}
	if err != nil {
		if k.own != nil {
			_ = k.own.Close()
		}
		_ = k.free()
		return nil, nil, nil, err
	}
	return k, offer, k.own, nil
}

func checkDriver(p *plan.Kernel, d *device.Device) error {
	if p.MinDriver == "" {
		return nil
	}
	have, err := d.API.Version()
	if err != nil {
		return fault(backend.InitFailed, "%w", err)
	}
	if backend.CompareVersions(have, p.MinDriver) < 0 {
		return fault(backend.Version, "the driver serves CUDA %s, the kernels need %s or newer", have, p.MinDriver)
	}
	return nil
}

// onClose has something done when the plan is given up, last things first.
func (k *Kernel) onClose(f func() error) { k.closers = append(k.closers, f) }

// Codes of the driver that say why it does not load an image.
const (
	noBinaryForGPU = 209
	invalidPTX     = 218
	unsupportedPTX = 222
	invalidImage   = 200
)

// load finds the functions of the launch table, and whether all blocks of all the group's ranks on this device run at once:
// blocks that wait for ones that cannot begin wait for ever.
func (k *Kernel) load(p *plan.Kernel, g collective.Group) error {
	m, err := module(k.device, p.Image)
	switch {
	case cuda.Is(err, noBinaryForGPU):
		return fault(backend.Arch, "the image has no code for this GPU (compute capability %s): %w", k.device.Info.Capability, err)
	case cuda.Is(err, unsupportedPTX):
		return fault(backend.Version, "the driver is too old for the image: %w", err)
	case cuda.Is(err, invalidPTX), cuda.Is(err, invalidImage):
		return fault(backend.PlanRejected, "the image: %w", err)
	case err != nil:
		return fault(backend.InitFailed, "load the image: %w", err)
	}
	own := g.Ranks[k.rank]
	sharing := lo.Filter(g.Ranks, func(r collective.Rank, _ int) bool {
		return r.Host == own.Host && r.Device != nil && own.Device != nil && r.Device.Same(*own.Device)
	})
	if err := checkConnections(lo.CountBy(sharing, func(r collective.Rank) bool { return r.PID == own.PID })); err != nil {
		return err
	}
	for _, l := range p.Launches {
		if err := k.row(m, l, max(len(sharing), 1)); err != nil {
			return err
		}
	}
	return nil
}

// fewShared is how much dynamic shared memory a block may have without being asked for.
const fewShared = 48 << 10

func (k *Kernel) row(m cuda.Module, l plan.Launch, sharing int) error {
	api := k.device.API
	f, err := api.Function(m, l.Function)
	if cuda.Is(err, cuda.NotFound) {
		return fault(backend.SymbolMissing, "the image has no function %s", l.Function)
	}
	if err == nil && l.SharedBytes > fewShared {
		err = api.AllowShared(f, l.SharedBytes)
	}
	resident := 0
	if err == nil {
		resident, err = api.Resident(f, k.device.Info.Index, l.Block, l.SharedBytes)
	}
	if err != nil {
		return fault(backend.InitFailed, "function %s: %w", l.Function, err)
	}
	if l.Grid*sharing > resident {
		return fault(backend.InitFailed, "function %s: %d blocks of %d threads for each of %s on one GPU, which runs %d such blocks at once",
			l.Function, l.Grid, l.Block, backend.Count(sharing, "rank"), resident)
	}
	r := kernelRow{min: l.Min, max: l.Max, args: []unsafe.Pointer{unsafe.Pointer(&k.call)}}
	if len(l.Arguments) > 0 {
		r.args = lo.Map(l.Arguments, func(a plan.Argument, _ int) unsafe.Pointer { return k.argument(a) })
	}
	r.dispatch = cuda.Dispatch{Function: f, Grid: l.Grid, Block: l.Block, SharedBytes: l.SharedBytes, Args: &r.args[0]}
	var t collective.DataType
	if err := t.UnmarshalText([]byte(l.DataType)); err != nil {
		return fault(backend.PlanRejected, "%w", err)
	}
	k.rows[t] = insert(k.rows[t], r)
	return nil
}

// insert keeps rows in order of their byte counts.
func insert(rows []kernelRow, r kernelRow) []kernelRow {
	at := 0
	for at < len(rows) && rows[at].min < r.min {
		at++
	}
	return append(rows[:at:at], append([]kernelRow{r}, rows[at:]...)...)
}

// words takes the memory of control, status, the table of buffers and the group's order.
func (k *Kernel) words() error {
	api := k.device.API
	if err := k.order.use(); err != nil {
		return err
	}
	k.onClose(k.order.unuse)
	backing, err := takeWords(k.device)
	if err != nil {
		return err
	}
	clear(backing)
	w := &k.watch
	w.status = (*kernelStatus)(unsafe.Pointer(&backing[0]))
	k.onClose(func() error {
		w.mu.Lock()
		w.status = nil
		w.mu.Unlock()
		return keepWords(k.device, backing)
	})
	status, err := api.HostPointer(backing)
	if err != nil {
		return err
	}
	const table, all = controlBytes, controlBytes + 8*plan.MaxKernelRanks
	p, err := takeMemory(k.device, all)
	if err != nil {
		return err
	}
	k.onClose(func() error { return keepMemory(k.device, p, all) })
	k.call.status, k.call.control, k.call.table = uintptr(status), uintptr(p), uintptr(p)+table
	return k.device.Clear(p, all)
}

// exec takes the graph that captured self-tests use.
func (k *Kernel) exec() error {
	for _, rows := range k.rows {
		if len(rows) == 0 {
			continue
		}
		x, err := takeExec(k.device, &rows[0].dispatch)
		if err != nil {
			return fmt.Errorf("a graph: %w", err)
		}
		k.spare = x
		k.onClose(func() error { return keepExec(k.device, x) })
		return nil
	}
	return nil
}

// free gives back what was taken, as far as that is possible. It may wait for all the device does.
func (k *Kernel) free() error {
	return k.device.Do(func() error {
		var errs []error
		for len(k.closers) > 0 {
			last := len(k.closers) - 1
			errs = append(errs, k.closers[last]())
			k.closers = k.closers[:last]
		}
		return errors.Join(errs...)
	})
}

package exec

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/native/cuda"
)

// process tells this process from every other, also from one with the same number in another container.
var process = rand.Text()

// kernelOffer is what each rank tells the others of its buffer before they connect.
type kernelOffer struct {
	Process string
	Address uint64 // in that process; 0 if the plan has no buffer in device memory
	Bytes   int64  // as mapped
	Blocks  bool   // it is mapped from a block (VMM): a descriptor goes with the offer if another process needs it
	IPC     []byte // a handle, where there are no blocks
	Context uintptr
	Device  int // index in that process
}

// lent are the buffers of this process's ranks that its other ranks use as they are. The last user gives one up, so that a
// rank that has gone leaves no hole that its peers' kernels would write into.
var lent = struct {
	mu  sync.Mutex
	all map[cuda.Pointer]*lentBuffer
}{all: map[cuda.Pointer]*lentBuffer{}}

type lentBuffer struct {
	users int
	free  func() error
}

func lend(p cuda.Pointer, free func() error) {
	lent.mu.Lock()
	defer lent.mu.Unlock()
	lent.all[p] = &lentBuffer{users: 1, free: free}
}

func borrow(p cuda.Pointer) bool {
	lent.mu.Lock()
	defer lent.mu.Unlock()
	b := lent.all[p]
	if b != nil {
		b.users++
	}
	return b != nil
}

func giveBack(p cuda.Pointer) error {
	lent.mu.Lock()
	b := lent.all[p]
	b.users--
	last := b.users == 0
	if last {
		delete(lent.all, p)
	}
	lent.mu.Unlock()
	if !last {
		return nil
	}
	return b.free()
}

// buffer takes this rank's buffer, zeroed, and says how the others reach it.
func (k *Kernel) buffer(g collective.Group, host []byte) (kernelOffer, error) {
	o := kernelOffer{Process: process, Context: uintptr(k.device.Context), Device: k.device.Info.Index}
	switch {
	case k.plan.BufferBytes == 0:
		return o, nil
	case k.plan.Buffer == plan.HostBuffer:
		return o, k.hostBuffers(host)
	}
	own := g.Ranks[k.rank]
	alone := lo.EveryBy(g.Ranks, func(r collective.Rank) bool { return r.PID == own.PID && r.Host == own.Host })
	err := errors.New("no other process needs it")
	if !alone {
		err = k.blockBuffer(&o)
	}
	if cuda.Is(err, cuda.OutOfMemory) {
		return o, err
	}
	if err != nil { // a driver or device without blocks that have descriptors
		err = k.plainBuffer(&o, alone)
	}
	if err != nil {
		return o, err
	}
	k.call.buffers[k.rank] = uintptr(o.Address)
	return o, k.device.Clear(cuda.Pointer(o.Address), o.Bytes)
}

// hostBuffers page-locks the memory of all ranks, which the agent made.
func (k *Kernel) hostBuffers(host []byte) error {
	api, stride := k.device.API, k.plan.HostStride()
	if int64(len(host)) < stride*int64(k.world) {
		return errors.New("the agent sent no memory for it")
	}
	if err := api.RegisterHost(host); err != nil {
		return fmt.Errorf("page-lock %d bytes of host memory: %w", len(host), err)
	}
	k.onClose(func() error { return api.UnregisterHost(host) })
	p, err := api.HostPointer(host)
	if err != nil {
		return err
	}
	for r := range k.world {
		k.call.buffers[r] = uintptr(p) + uintptr(stride)*uintptr(r)
	}
	return nil
}

// blockBuffer is a buffer that other processes map by a descriptor. What they map stays when this process ends.
func (k *Kernel) blockBuffer(o *kernelOffer) error {
	api, index := k.device.API, k.device.Info.Index
	unit, err := api.Granularity(index)
	if err != nil {
		return err
	}
	bytes := (k.plan.BufferBytes + unit - 1) / unit * unit
	b, err := api.NewBlock(index, bytes)
	if err != nil {
		return err
	}
	defer func() { _ = api.ReleaseBlock(b) }() // the mapping and the descriptor keep it
	f, err := api.ExportBlock(b)
	if err != nil {
		return err
	}
	p, err := api.Map(b, bytes, index)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	d := k.device
	lend(p, func() error { return d.Do(func() error { return api.Unmap(p, bytes) }) })
	k.onClose(func() error { return giveBack(p) })
	k.own, o.Address, o.Bytes, o.Blocks = f, uint64(p), bytes, true
	return nil
}

// plainBuffer is a buffer that other processes, if there are any, open by a CUDA IPC handle. While one has it open it may
// not be freed, and nobody can tell when that ends, so it stays until this process does.
func (k *Kernel) plainBuffer(o *kernelOffer, alone bool) error {
	d, bytes := k.device, k.plan.BufferBytes
	p, err := takeMemory(d, bytes)
	if err != nil {
		return err
	}
	free := func() error { return nil }
	if alone {
		free = func() error { return keepMemory(d, p, bytes) }
	}
	lend(p, free)
	k.onClose(func() error { return giveBack(p) })
	o.Address, o.Bytes = uint64(p), bytes
	if alone {
		return nil
	}
	h, err := d.API.ExportIPC(p)
	o.IPC = h[:]
	return err
}

// Connect maps the buffers of the other ranks. offers and files are by rank; a file is nil where none was sent.
func (k *Kernel) Connect(offers [][]byte, files []*os.File, _ time.Duration) error {
	if len(offers) != k.world || len(files) != k.world {
		return fault(backend.InitFailed, "%d ranks offer buffers, want %d", len(offers), k.world)
	}
	return k.device.Do(func() error {
		for r, text := range offers {
			var o kernelOffer
			if err := json.Unmarshal(text, &o); err != nil {
				return fault(backend.InitFailed, "rank %d offers no buffer: %w", r, err)
			}
			if o.Address == 0 || r == k.rank {
				continue
			}
			if o.Bytes < k.plan.BufferBytes {
				return fault(backend.InitFailed, "rank %d offers a buffer of %d bytes, want %d", r, o.Bytes, k.plan.BufferBytes)
			}
			p, err := k.reach(o, files[r])
			if err != nil {
				return &backend.Fault{Code: backend.InitFailed, Rank: backend.AnyRank, Err: fmt.Errorf("the buffer of rank %d: %w", r, err)}
			}
			k.call.buffers[r] = uintptr(p)
		}
		table := make([]byte, 8*plan.MaxKernelRanks)
		for r, p := range k.call.buffers {
			binary.NativeEndian.PutUint64(table[8*r:], uint64(p))
		}
		if err := k.device.Write(cuda.Pointer(k.call.table), table); err != nil {
			return fault(backend.InitFailed, "%w", err)
		}
		k.watch.ready.Store(true)
		return nil
	})
}

// reach makes a peer's buffer one that this rank's device can write.
func (k *Kernel) reach(o kernelOffer, f *os.File) (cuda.Pointer, error) {
	api, index := k.device.API, k.device.Info.Index
	switch p := cuda.Pointer(o.Address); {
	case o.Process == process:
		if !borrow(p) {
			return 0, errors.New("it has been given up")
		}
		k.onClose(func() error { return giveBack(p) })
		switch {
		case o.Device == index:
			return p, nil
		case o.Blocks:
			return p, api.Allow(p, o.Bytes, index)
		}
		return p, api.EnablePeer(cuda.Context(o.Context))
	case o.Blocks:
		if f == nil {
			return 0, errors.New("its descriptor did not come")
		}
		b, err := api.ImportBlock(f)
		if err != nil {
			return 0, err
		}
		defer func() { _ = api.ReleaseBlock(b) }()
		p, err := api.Map(b, o.Bytes, index)
		if err == nil {
			k.onClose(func() error { return api.Unmap(p, o.Bytes) })
		}
		return p, err
	case len(o.IPC) == len(cuda.IPCHandle{}):
		p, err := api.OpenIPC(cuda.IPCHandle(o.IPC))
		if err == nil {
			k.onClose(func() error { return api.CloseIPC(p) })
		}
		return p, err
	}
	return 0, errors.New("it is of another process with the same number, and cannot be reached")
}

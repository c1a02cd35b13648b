package rank

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/internal/exec"
	"github.com/weir-project/weir/sdk/native/cuda"
)

// DeviceMemory is registered memory of the rank's device.
type DeviceMemory struct {
	group   *Group
	library *exec.Library // nil: memory that only this rank reaches, since no backend has a use for more
	window  exec.SymmetricWindow
}

// Pointer is its address on the device.
func (m *DeviceMemory) Pointer() uintptr { return m.window.Pointer }

// Bytes is its size.
func (m *DeviceMemory) Bytes() int64 { return m.window.Bytes }

// AllocDevice returns registered memory of the rank's device. All ranks call it with the same number of bytes and wait for
// one another. All-reduces whose dst and src both lie in such memory are a request class of their own (Registered), which
// backends can serve that need to reach every rank's buffers; all ranks then pass registered memory. Which backend that is
// is decided by the first AllocDevice of the group. DeviceMemory.Free or Group.Close ends the memory's life.
func (g *Group) AllocDevice(ctx context.Context, bytes int64) (*DeviceMemory, error) {
	switch {
	case g.session.gpu == nil:
		return nil, errors.New(noDevice)
	case bytes <= 0:
		return nil, fmt.Errorf("registered device memory of %d bytes", bytes)
	}
	probe := collective.Class{Memory: collective.CUDA, DataType: collective.Float32, Op: collective.Sum, Registered: true}
	if err := g.Warm(ctx, probe); err != nil {
		return nil, err
	}
	if !g.enter() {
		return nil, g.busyError()
	}
	defer g.exit()
	g.forget()
	if e := g.dead.Load(); e != nil {
		return nil, e
	}
	m := &DeviceMemory{group: g}
	for _, e := range g.tables[probe.Index()].Load().entries {
		if e.library != nil && e.library.Symmetric() {
			m.library = e.library
		}
	}
	var err error
	if m.library != nil {
		if m.window, err = m.library.NewWindow(bytes, g.deadline); err != nil {
			return nil, g.broken(g.calls, fmt.Errorf("rank %d: registered device memory: %w", g.rank, err)) // the others wait for it
		}
	} else {
		m.window = exec.SymmetricWindow{Bytes: bytes}
		d := g.session.gpu.device
		err = d.Do(func() error {
			p, err := d.API.Alloc(bytes)
			m.window.Pointer = uintptr(p)
			return err
		})
		if err != nil {
			return nil, g.broken(g.calls, fmt.Errorf("rank %d: registered device memory: %w", g.rank, err))
		}
	}
	g.mu.Lock()
	g.deviceMemory = append(g.deviceMemory, m)
	g.mu.Unlock()
	return m, nil
}

// Free gives the memory back. All ranks call it, in the same order, when no call on it is outstanding on any stream.
func (m *DeviceMemory) Free() error {
	g := m.group
	if !g.enter() {
		return g.busyError()
	}
	defer g.exit()
	g.forget()
	g.mu.Lock()
	found := false
	var left []*DeviceMemory
	for _, x := range g.deviceMemory {
		if x == m {
			found = true
		} else {
			left = append(left, x)
		}
	}
	g.deviceMemory = left
	g.mu.Unlock()
	if !found {
		return fmt.Errorf("free device memory of group %s: it was given back before", g.id)
	}
	if g.dead.Load() != nil {
		return nil // its communicator is gone, and with it the use of the memory
	}
	return m.free()
}

func (m *DeviceMemory) free() error {
	if m.library != nil {
		return m.library.FreeWindow(m.window)
	}
	d := m.group.session.gpu.device
	return d.Do(func() error { return d.API.Free(cuda.Pointer(m.window.Pointer)) })
}

// onDeviceRegistered reports whether both buffers of a call lie in registered memory.
func (g *Group) onDeviceRegistered(dst, src uintptr, bytes int64) bool {
	in, out := false, false
	for _, m := range g.deviceMemory {
		in = in || m.holds(src, bytes)
		out = out || m.holds(dst, bytes)
	}
	return in && out
}

func (m *DeviceMemory) holds(p uintptr, bytes int64) bool {
	return p >= m.window.Pointer && p-m.window.Pointer < uintptr(m.window.Bytes) && uintptr(bytes) <= uintptr(m.window.Bytes)-(p-m.window.Pointer)
}

// freeDeviceMemory gives all of a group's back when it is closed, which its ranks do together: without windows the peers
// may be slow to.
func (g *Group) freeDeviceMemory(dead bool) error {
	if dead {
		return nil
	}
	var errs []error
	for _, m := range g.deviceMemory {
		done := make(chan error, 1)
		go func() { done <- m.free() }()
		select {
		case err := <-done:
			errs = append(errs, err)
		case <-time.After(closePatience):
			errs = append(errs, errors.New("registered device memory was not given back in time"))
		}
	}
	g.deviceMemory = nil
	return errors.Join(errs...)
}

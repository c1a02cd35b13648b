package cuda

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/topology"
)

// Context is a CUcontext; the zero value is none.
type Context uintptr

// Find is the device that a person names: by index, UUID (a unique beginning of it is enough) or PCI bus id.
func (d *Driver) Find(name string) (topology.Device, error) {
	all, err := d.Devices()
	if err != nil {
		return topology.Device{}, err
	}
	if index, err := strconv.Atoi(name); err == nil {
		if index < 0 || index >= len(all) {
			return topology.Device{}, fmt.Errorf("device %d is out of range: this process may use %s", index, indices(len(all)))
		}
		return all[index], nil
	}
	found := lo.Filter(all, func(e topology.Device, _ int) bool {
		return strings.HasPrefix(name, "GPU-") && strings.HasPrefix(e.UUID, name) || samePCI(e.PCIBusID, name)
	})
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return topology.Device{}, fmt.Errorf("no device %q: this process may use %s (index, UUID or PCI bus id)", name,
			strings.Join(lo.Map(all, func(e topology.Device, i int) string { return fmt.Sprintf("%d %s %s", i, e.UUID, e.PCIBusID) }), ", "))
	}
	return topology.Device{}, fmt.Errorf("device %q: %d devices have a UUID that begins so", name, len(found))
}

func indices(n int) string {
	switch n {
	case 0:
		return "none"
	case 1:
		return "only device 0"
	}
	return fmt.Sprintf("devices 0 to %d", n-1)
}

// samePCI compares bus ids, whose domain some programs write with eight digits and some leave out.
func samePCI(a, b string) bool {
	fold := func(s string) string {
		s = strings.ToLower(s)
		if strings.Count(s, ":") == 1 {
			s = "0000:" + s
		}
		return strings.TrimLeft(s, "0")
	}
	return a != "" && fold(a) == fold(b)
}

// Retain makes the primary context of a device, which all users of the CUDA runtime share, or adds a user to it.
func (a *API) Retain(device int) (Context, error) {
	var handle int32
	if err := a.check("cuDeviceGet", a.deviceGet(&handle, int32(device))); err != nil {
		return 0, err
	}
	c := new(Context)
	err := a.call(primaryRetain, uintptr(unsafe.Pointer(c)), uintptr(handle))
	return *c, err
}

// NewContext makes a context of a device beside its primary one, and makes it current on the calling thread.
func (a *API) NewContext(device int) (Context, error) {
	var handle int32
	if err := a.check("cuDeviceGet", a.deviceGet(&handle, int32(device))); err != nil {
		return 0, err
	}
	c := new(Context)
	err := a.call(ctxCreate, uintptr(unsafe.Pointer(c)), 0, uintptr(handle))
	return *c, err
}

// Release gives a primary context up; the last user's Release destroys it.
func (a *API) Release(device int) error {
	var handle int32
	if err := a.check("cuDeviceGet", a.deviceGet(&handle, int32(device))); err != nil {
		return err
	}
	return a.call(primaryRelease, uintptr(handle))
}

// Current is the context of the calling thread; zero for none.
func (a *API) Current() (Context, error) {
	c := new(Context)
	err := a.call(ctxGetCurrent, uintptr(unsafe.Pointer(c)))
	return *c, err
}

// SetCurrent makes a context the calling thread's.
func (a *API) SetCurrent(c Context) error { return a.call(ctxSetCurrent, uintptr(c)) }

// Synchronize waits for all work of the current context.
func (a *API) Synchronize() error { return a.call(ctxSynchronize) }

// CanAccessPeer reports whether device can reach the memory of peer.
func (a *API) CanAccessPeer(device, peer int) (bool, error) {
	var handles [2]int32
	for i, index := range []int{device, peer} {
		if err := a.check("cuDeviceGet", a.deviceGet(&handles[i], int32(index))); err != nil {
			return false, err
		}
	}
	can := new(int32)
	err := a.call(deviceCanAccessPeer, uintptr(unsafe.Pointer(can)), uintptr(handles[0]), uintptr(handles[1]))
	return *can != 0, err
}

// EnablePeer lets the current context reach the memory of another device's. It may have been enabled before.
func (a *API) EnablePeer(peer Context) error {
	err := a.call(ctxEnablePeerAccess, uintptr(peer), 0)
	if Is(err, PeerEnabled) {
		return nil
	}
	return err
}

// In runs f with a context current on its thread and brings the one before back, whatever f did to it.
func (a *API) In(c Context, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := a.Current()
	if err != nil {
		return err
	}
	if err := a.SetCurrent(c); err != nil {
		return err
	}
	err = f()
	if e := a.SetCurrent(before); err == nil {
		err = e
	}
	return err
}

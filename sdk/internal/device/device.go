// Package device is the GPU of a rank: its driver and context, and what a call's pointers and stream must be.
package device

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/sdk/native/cuda"
	"github.com/weir-project/weir/sdk/native/dl"
)

// Auto names the device whose index is the rank modulo the number of devices.
const Auto = "auto"

// OldestCUDA is the oldest CUDA version that a driver must serve: the first with all functions that Weir calls.
const OldestCUDA = "11.4"

// Device is a GPU in use. Its methods may be called concurrently.
type Device struct {
	API     *cuda.API
	Info    topology.Device
	Driver  string // version of the kernel's driver, such as "580.159.04"; "" if it cannot be read
	Context cuda.Context

	mu    sync.Mutex
	spare []cuda.Stream // for set-up and self-tests: see take
}

// Open starts the driver and makes or joins the primary context of a device: an index, a UUID or the beginning of one, a
// PCI bus id, or Auto.
func Open(name string, rank int) (*Device, error) {
	driver, err := cuda.Open()
	if err != nil {
		return nil, fmt.Errorf("no CUDA driver: %w", err)
	}
	version, err := driver.Version()
	if err != nil {
		return nil, err
	}
	if backend.CompareVersions(version, OldestCUDA) < 0 {
		return nil, fmt.Errorf("the CUDA driver at %s serves CUDA %s, needs %s or newer", driver.Path(), version, OldestCUDA)
	}
	api, err := driver.Bind()
	if missing := (*dl.SymbolError)(nil); errors.As(err, &missing) {
		return nil, fmt.Errorf("the CUDA driver at %s has no %s: it is too old, Weir needs CUDA %s or newer", driver.Path(), missing.Symbol, OldestCUDA)
	}
	if err := api.Init(); err != nil {
		return nil, fmt.Errorf("start the CUDA driver at %s: %w", driver.Path(), err)
	}
	d := &Device{API: api, Driver: driverVersion()}
	if d.Info, err = find(api, name, rank); err != nil {
		return nil, err
	}
	if d.Context, err = api.Retain(d.Info.Index); err != nil {
		return nil, fmt.Errorf("device %d: %w", d.Info.Index, err)
	}
	var s cuda.Stream
	err = d.Do(func() (err error) { s, err = d.take(); return err })
	if err != nil {
		return nil, errors.Join(fmt.Errorf("device %d: %w", d.Info.Index, err), api.Release(d.Info.Index))
	}
	d.give(s)
	return d, nil
}

// take is a stream that nobody else uses until it is given: what two groups that are decided at a time put on one would wait for each
// other, or become part of the other's graph. There is one from the start, and hardly ever another. Within Do.
func (d *Device) take() (cuda.Stream, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if last := len(d.spare) - 1; last >= 0 {
		s := d.spare[last]
		d.spare = d.spare[:last]
		return s, nil
	}
	return d.API.NewStream()
}

func (d *Device) give(s cuda.Stream) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.spare = append(d.spare, s)
}

func find(api *cuda.API, name string, rank int) (topology.Device, error) {
	if name != Auto {
		return api.Find(name)
	}
	all, err := api.Devices()
	if err != nil || len(all) == 0 {
		return topology.Device{}, errors.Join(err, errors.New("the CUDA driver shows this process no device"))
	}
	return all[rank%len(all)], nil
}

// driverVersion is the version of the kernel's driver, as far as the kernel tells.
func driverVersion() string {
	if v, err := os.ReadFile("/sys/module/nvidia/version"); err == nil {
		return strings.TrimSpace(string(v))
	}
	about, err := os.ReadFile("/proc/driver/nvidia/version")
	if err != nil {
		return ""
	}
	for word := range strings.FieldsSeq(string(about)) { // NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  …
		if c := word[0]; c >= '0' && c <= '9' && strings.Contains(word, ".") {
			return word
		}
	}
	return ""
}

// Close gives the context up.
func (d *Device) Close() error {
	d.mu.Lock()
	spare := d.spare
	d.spare = nil
	d.mu.Unlock()
	err := d.Do(func() error {
		return errors.Join(lo.Map(spare, func(s cuda.Stream, _ int) error { return d.API.DestroyStream(s) })...)
	})
	return errors.Join(err, d.API.Release(d.Info.Index))
}

// setUpPatience bounds small work on a device that may be busy with the kernels of others.
const setUpPatience = 20 * time.Second

// Clear zeroes device memory, within Do, and returns when that is done. It waits for nothing else on the device.
func (d *Device) Clear(p cuda.Pointer, bytes int64) error {
	return d.setUp(func(s cuda.Stream) error { return d.API.FillAsync(p, 0, bytes, s) })
}

// Write copies to device memory as Clear zeroes it.
func (d *Device) Write(p cuda.Pointer, src []byte) error {
	return d.setUp(func(s cuda.Stream) error { return d.API.ToDeviceAsync(p, src, s) })
}

// setUp waits for what f puts on a stream. One that did not come to its end is nobody's any more.
func (d *Device) setUp(f func(cuda.Stream) error) error {
	s, err := d.take()
	if err != nil {
		return err
	}
	if err := errors.Join(f(s), d.Wait(s, time.Now().Add(setUpPatience), nil)); err != nil {
		return err
	}
	d.give(s)
	return nil
}

// Do runs f on a thread with the device's context, so that nothing in it disturbs a capture in progress, and brings the
// thread's own context back.
func (d *Device) Do(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return d.API.In(d.Context, func() error { return d.API.Relaxed(f) })
}

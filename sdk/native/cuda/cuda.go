// Package cuda binds what Weir needs of the CUDA driver.
package cuda

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/sdk/native/dl"
)

// LibraryName is how the loader knows the CUDA driver.
const LibraryName = "libcuda.so.1"

// Error is a call that the driver says failed.
type Error struct {
	Call string // such as "cuInit"
	Code int
	Name string // such as "CUDA_ERROR_NO_DEVICE"; "" if the driver has none for the code
	Text string // the driver's words, such as "no CUDA-capable device is detected"; "" if it has none
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s: CUDA error %d", e.Call, e.Code)
	if e.Name != "" {
		s = fmt.Sprintf("%s: %s (%d)", e.Call, e.Name, e.Code)
	}
	if e.Text != "" {
		s += ", " + e.Text
	}
	return s
}

// Codes that callers tell apart.
const (
	InvalidValue     = 1
	OutOfMemory      = 2
	NoDevice         = 100
	InvalidContext   = 201
	NotFound         = 500 // a function that a module does not have
	NotReady         = 600 // an answer to StreamQuery and EventQuery, not a failure
	PeerEnabled      = 704 // peer access had been enabled before
	NotSupported     = 801
	DriverMismatch   = 803 // the driver's library and kernel module are of different versions
	DriverNotCompat  = 804 // the driver's library is too new for the kernel module on this GPU
	attributeMajor   = 75
	attributeMinor   = 76
	nameBytes        = 256
	pciBusIDBytes    = 32
	success          = 0
	uuidBytes        = 16
	versionThousands = 1000
)

// Driver is the CUDA driver of this process. Its methods may be called concurrently.
type Driver struct {
	lib *dl.Library

	init           func(flags uint32) int32
	driverVersion  func(version *int32) int32
	deviceGetCount func(count *int32) int32
	deviceGet      func(device *int32, ordinal int32) int32
	getName        func(name *byte, size, device int32) int32
	getUUID        func(uuid *byte, device int32) int32
	getPCIBusID    func(id *byte, size, device int32) int32
	getAttribute   func(value *int32, attribute, device int32) int32
	getErrorName   func(code int32, name **byte) int32
	getErrorString func(code int32, text **byte) int32 // nil in a library that has none
}

// Open opens the first of the libraries that the loader takes, LibraryName if none is named, and finds its functions.
// It does not initialise the driver.
func Open(names ...string) (*Driver, error) {
	if len(names) == 0 {
		names = []string{LibraryName}
	}
	lib, err := dl.Open(names...)
	if err != nil {
		return nil, err
	}
	d := &Driver{lib: lib}
	uuid := "cuDeviceGetUuid_v2" // tells the parts of a divided GPU apart; since CUDA 11.4
	if !lib.Has(uuid) {
		uuid = "cuDeviceGetUuid"
	}
	for _, f := range []struct {
		name string
		fptr any
	}{
		{"cuInit", &d.init},
		{"cuDriverGetVersion", &d.driverVersion},
		{"cuDeviceGetCount", &d.deviceGetCount},
		{"cuDeviceGet", &d.deviceGet},
		{"cuDeviceGetName", &d.getName},
		{uuid, &d.getUUID},
		{"cuDeviceGetPCIBusId", &d.getPCIBusID},
		{"cuDeviceGetAttribute", &d.getAttribute},
		{"cuGetErrorName", &d.getErrorName},
	} {
		if err := lib.Bind(f.fptr, f.name); err != nil {
			return nil, errors.Join(err, lib.Close())
		}
	}
	if text := "cuGetErrorString"; lib.Has(text) {
		if err := lib.Bind(&d.getErrorString, text); err != nil {
			return nil, errors.Join(err, lib.Close())
		}
	}
	return d, nil
}

// Path is the absolute path of the driver's library.
func (d *Driver) Path() string { return d.lib.Path() }

// Init initialises the driver for the process; it makes no context. It may take seconds the first time.
func (d *Driver) Init() error { return d.check("cuInit", d.init(0)) }

// Version is the newest CUDA version that the driver serves, such as "12.8"; Init need not have been called.
func (d *Driver) Version() (string, error) {
	var v int32
	if err := d.check("cuDriverGetVersion", d.driverVersion(&v)); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d.%d", v/versionThousands, v%versionThousands/10), nil
}

// Devices are the GPUs that this process may use, by index. Init must have succeeded.
func (d *Driver) Devices() ([]topology.Device, error) {
	var count int32
	if err := d.check("cuDeviceGetCount", d.deviceGetCount(&count)); err != nil {
		return nil, err
	}
	devices := make([]topology.Device, count)
	for i := range devices {
		var err error
		if devices[i], err = d.device(i); err != nil {
			return nil, fmt.Errorf("GPU %d: %w", i, err)
		}
	}
	return devices, nil
}

func (d *Driver) device(index int) (topology.Device, error) {
	var (
		handle, major, minor int32
		name                 [nameBytes]byte
		uuid                 [uuidBytes]byte
		bus                  [pciBusIDBytes]byte
	)
	if err := d.check("cuDeviceGet", d.deviceGet(&handle, int32(index))); err != nil {
		return topology.Device{}, err
	}
	for _, call := range []struct {
		name string
		do   func() int32
	}{
		{"cuDeviceGetName", func() int32 { return d.getName(&name[0], nameBytes, handle) }},
		{"cuDeviceGetUuid", func() int32 { return d.getUUID(&uuid[0], handle) }},
		{"cuDeviceGetPCIBusId", func() int32 { return d.getPCIBusID(&bus[0], pciBusIDBytes, handle) }},
		{"cuDeviceGetAttribute", func() int32 { return d.getAttribute(&major, attributeMajor, handle) }},
		{"cuDeviceGetAttribute", func() int32 { return d.getAttribute(&minor, attributeMinor, handle) }},
	} {
		if err := d.check(call.name, call.do()); err != nil {
			return topology.Device{}, err
		}
	}
	return topology.Device{
		Index: index, UUID: formatUUID(uuid), PCIBusID: unix.ByteSliceToString(bus[:]),
		Name: unix.ByteSliceToString(name[:]), Capability: fmt.Sprintf("%d.%d", major, minor), Vendor: "nvidia",
	}, nil
}

// formatUUID writes a UUID as nvidia-smi does.
func formatUUID(u [uuidBytes]byte) string {
	return fmt.Sprintf("GPU-%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// Sticky reports whether an error is one after which the process can use its context no more, such as an illegal address in
// a kernel.
func Sticky(err error) bool {
	var failed *Error
	return errors.As(err, &failed) && slices.Contains(sticky, failed.Code)
}

// sticky are the codes of such errors: of memory (ECC, NVLink), of a kernel's addresses and instructions, of a kernel that
// failed or timed out, and of a context that is gone.
var sticky = []int{214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719}

func (d *Driver) check(call string, code int32) error {
	if code == success {
		return nil
	}
	err := &Error{Call: call, Code: int(code)}
	var name *byte
	if d.getErrorName(code, &name) == success && name != nil {
		err.Name = unix.BytePtrToString(name)
	}
	var text *byte
	if d.getErrorString != nil && d.getErrorString(code, &text) == success && text != nil {
		err.Text = unix.BytePtrToString(text)
	}
	return err
}

// Close gives the driver's library up. The process stays initialised.
func (d *Driver) Close() error { return d.lib.Close() }

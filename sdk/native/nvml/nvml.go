// Package nvml binds what Weir needs of NVIDIA's management library.
package nvml

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/sdk/native/dl"
)

// LibraryName is how the loader knows NVML.
const LibraryName = "libnvidia-ml.so.1"

// Results that callers tell apart.
const (
	InvalidArgument = 2
	NotSupported    = 3
	DriverNotLoaded = 9
	VersionMismatch = 18 // the library and the kernel module are of different versions
)

// Sizes of NVML's buffers and structs, from its header.
const (
	uuidBytes    = 96
	nameBytes    = 96
	versionBytes = 80
	maxLinks     = 36 // NVML_NVLINK_MAX_LINKS; 18 before Blackwell
)

// Error is a call that NVML says failed.
type Error struct {
	Call string // such as "nvmlInit_v2"
	Code int
	Text string // NVML's own words; "" if it has none
}

func (e *Error) Error() string {
	if e.Text == "" {
		return fmt.Sprintf("%s: NVML error %d", e.Call, e.Code)
	}
	return fmt.Sprintf("%s: %s (%d)", e.Call, e.Text, e.Code)
}

// GPU is NVML's handle of a GPU, or of a part of a divided one.
type GPU uintptr

// Library is NVML in this process. Its methods may be called concurrently once Init has succeeded. A driver that is
// broken can make any of them wait for ever: callers must not wait for them.
type Library struct {
	lib *dl.Library

	init     func() int32
	shutdown func() int32
	count    func(n *uint32) int32
	handle   func(index uint32, gpu *GPU) int32
	uuid     func(gpu GPU, s *byte, size uint32) int32
	pciInfo  func(gpu GPU, info unsafe.Pointer) int32

	// These are not in every version; nil then.
	name       func(gpu GPU, s *byte, size uint32) int32
	capability func(gpu GPU, major, minor *int32) int32
	version    func(s *byte, size uint32) int32
	ancestor   func(a, b GPU, level *uint32) int32
	p2pStatus  func(a, b GPU, capability uint32, status *uint32) int32
	linkState  func(gpu GPU, link uint32, active *uint32) int32
	remotePCI  func(gpu GPU, link uint32, info unsafe.Pointer) int32
	remoteType func(gpu GPU, link uint32, kind *uint32) int32
	migMode    func(gpu GPU, current, pending *uint32) int32
	migMax     func(gpu GPU, n *uint32) int32
	migHandle  func(gpu GPU, index uint32, part *GPU) int32
	errorText  func(code int32) string
}

// Open opens the first of the libraries that the loader takes, LibraryName if none is named. It does not initialise it.
func Open(names ...string) (*Library, error) {
	if len(names) == 0 {
		names = []string{LibraryName}
	}
	lib, err := dl.Open(names...)
	if err != nil {
		return nil, err
	}
	l := &Library{lib: lib}
	for _, f := range []struct {
		fptr   any
		name   string
		needed bool
	}{
		{&l.init, "nvmlInit_v2", true},
		{&l.shutdown, "nvmlShutdown", true},
		{&l.count, "nvmlDeviceGetCount_v2", true},
		{&l.handle, "nvmlDeviceGetHandleByIndex_v2", true},
		{&l.uuid, "nvmlDeviceGetUUID", true},
		{&l.pciInfo, "nvmlDeviceGetPciInfo_v3", true},
		{&l.name, "nvmlDeviceGetName", false},
		{&l.capability, "nvmlDeviceGetCudaComputeCapability", false},
		{&l.version, "nvmlSystemGetDriverVersion", false},
		{&l.ancestor, "nvmlDeviceGetTopologyCommonAncestor", false},
		{&l.p2pStatus, "nvmlDeviceGetP2PStatus", false},
		{&l.linkState, "nvmlDeviceGetNvLinkState", false},
		{&l.remotePCI, "nvmlDeviceGetNvLinkRemotePciInfo_v2", false},
		{&l.remoteType, "nvmlDeviceGetNvLinkRemoteDeviceType", false},
		{&l.migMode, "nvmlDeviceGetMigMode", false},
		{&l.migMax, "nvmlDeviceGetMaxMigDeviceCount", false},
		{&l.migHandle, "nvmlDeviceGetMigDeviceHandleByIndex", false},
		{&l.errorText, "nvmlErrorString", false},
	} {
		if !f.needed && !lib.Has(f.name) {
			continue
		}
		if err := lib.Bind(f.fptr, f.name); err != nil {
			return nil, errors.Join(err, lib.Close())
		}
	}
	return l, nil
}

// Path is the absolute path of the library.
func (l *Library) Path() string { return l.lib.Path() }

// Init initialises NVML for the process.
func (l *Library) Init() error { return l.check("nvmlInit_v2", l.init()) }

// Close undoes Init and gives the library up.
func (l *Library) Close() error {
	return errors.Join(l.check("nvmlShutdown", l.shutdown()), l.lib.Close())
}

// DriverVersion is that of the driver, such as "570.86.10".
func (l *Library) DriverVersion() (string, error) {
	if l.version == nil {
		return "", l.missing("nvmlSystemGetDriverVersion")
	}
	var s [versionBytes]byte
	err := l.check("nvmlSystemGetDriverVersion", l.version(&s[0], versionBytes))
	return unix.ByteSliceToString(s[:]), err
}

// GPUs are those that this process may use, in the order of their bus ids.
func (l *Library) GPUs() ([]GPU, error) {
	var n uint32
	if err := l.check("nvmlDeviceGetCount_v2", l.count(&n)); err != nil {
		return nil, err
	}
	gpus := make([]GPU, n)
	for i := range gpus {
		if err := l.check("nvmlDeviceGetHandleByIndex_v2", l.handle(uint32(i), &gpus[i])); err != nil {
			return nil, fmt.Errorf("GPU %d: %w", i, err)
		}
	}
	return gpus, nil
}

// missing is the error of a function that this version of the library lacks.
func (l *Library) missing(name string) error {
	return &dl.SymbolError{Library: l.lib.Path(), Symbol: name}
}

func (l *Library) check(call string, code int32) error {
	if code == 0 {
		return nil
	}
	e := &Error{Call: call, Code: int(code)}
	if l.errorText != nil {
		e.Text = l.errorText(code)
	}
	return e
}

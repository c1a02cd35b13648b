package cuda

import (
	"encoding/binary"
	"os"
	"unsafe"

	"github.com/weir-project/weir/sdk/native/dl"
)

const ipcBytes = 64

// IPCHandle names memory of Alloc to other processes of the host.
type IPCHandle [ipcBytes]byte

// ExportIPC makes a handle of memory of Alloc. The memory must not be freed while another process has it open.
func (a *API) ExportIPC(p Pointer) (IPCHandle, error) {
	h := new(IPCHandle)
	err := a.call(ipcGetMemHandle, uintptr(unsafe.Pointer(h)), uintptr(p))
	return *h, err
}

// OpenIPC maps the memory of another process into the current context.
func (a *API) OpenIPC(h IPCHandle) (Pointer, error) {
	const lazyPeerAccess = 1
	if a.address[ipcOpenMemHandle] == 0 {
		return 0, a.call(ipcOpenMemHandle)
	}
	var words [ipcBytes / 8]uint64
	for i := range words {
		words[i] = binary.NativeEndian.Uint64(h[8*i:])
	}
	p := new(Pointer)
	code := dl.CallStruct(a.address[ipcOpenMemHandle], words[:], 1, uintptr(unsafe.Pointer(p)), lazyPeerAccess)
	return *p, a.check(symbols[ipcOpenMemHandle].name, int32(code))
}

// CloseIPC gives the mapping of OpenIPC up.
func (a *API) CloseIPC(p Pointer) error { return a.call(ipcCloseMemHandle, uintptr(p)) }

// Block is physical memory of a device that can be mapped and shared (CUmemGenericAllocationHandle).
type Block uint64

const (
	posixDescriptor = 1 // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
	pinnedMemory    = 1 // CU_MEM_ALLOCATION_TYPE_PINNED
	deviceLocation  = 1 // CU_MEM_LOCATION_TYPE_DEVICE
	readWrite       = 3 // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
)

// allocationProp is CUmemAllocationProp.
type allocationProp struct {
	kind, handles uint32
	locationKind  uint32
	device        int32
	win32         uintptr
	compression   uint8
	gpuDirectRDMA uint8
	usage         uint16
	_             [4]byte
}

func (a *API) prop(device int) (*allocationProp, error) {
	p := &allocationProp{kind: pinnedMemory, handles: posixDescriptor, locationKind: deviceLocation}
	err := a.check("cuDeviceGet", a.deviceGet(&p.device, int32(device)))
	return p, err
}

// Granularity is the bytes of which a Block's size must be a multiple.
func (a *API) Granularity(device int) (int64, error) {
	p, err := a.prop(device)
	if err != nil {
		return 0, err
	}
	n := new(uintptr)
	err = a.call(memGetGranularity, uintptr(unsafe.Pointer(n)), uintptr(unsafe.Pointer(p)), 0)
	return int64(*n), err
}

// NewBlock takes physical memory of a device that may be exported as a file descriptor.
func (a *API) NewBlock(device int, bytes int64) (Block, error) {
	p, err := a.prop(device)
	if err != nil {
		return 0, err
	}
	b := new(Block)
	err = a.call(memCreate, uintptr(unsafe.Pointer(b)), uintptr(bytes), uintptr(unsafe.Pointer(p)), 0)
	return *b, err
}

// ReleaseBlock gives a block up; it is freed when no mapping and no process uses it any more.
func (a *API) ReleaseBlock(b Block) error { return a.call(memRelease, uintptr(b)) }

// ExportBlock makes a file descriptor of a block, to be sent to another process.
func (a *API) ExportBlock(b Block) (*os.File, error) {
	fd := new(int32)
	if err := a.call(memExport, uintptr(unsafe.Pointer(fd)), uintptr(b), posixDescriptor, 0); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(*fd), "cuda-memory"), nil
}

// ImportBlock is the block behind another process's descriptor. The caller closes the file.
func (a *API) ImportBlock(f *os.File) (Block, error) {
	b := new(Block)
	err := a.call(memImport, uintptr(unsafe.Pointer(b)), f.Fd(), posixDescriptor)
	return *b, err
}

// accessDesc is CUmemAccessDesc.
type accessDesc struct {
	locationKind uint32
	device       int32
	flags        uint32
}

// Map puts a block at an address of its own where a device may read and write it.
func (a *API) Map(b Block, bytes int64, device int) (Pointer, error) {
	p := new(Pointer)
	if err := a.call(memAddressReserve, uintptr(unsafe.Pointer(p)), uintptr(bytes), 0, 0, 0); err != nil {
		return 0, err
	}
	if err := a.call(memMap, uintptr(*p), uintptr(bytes), 0, uintptr(b), 0); err != nil {
		_ = a.call(memAddressFree, uintptr(*p), uintptr(bytes))
		return 0, err
	}
	if err := a.Allow(*p, bytes, device); err != nil {
		_ = a.Unmap(*p, bytes)
		return 0, err
	}
	return *p, nil
}

// Allow lets a device read and write what Map has put at an address, beside those that may already.
func (a *API) Allow(p Pointer, bytes int64, device int) error {
	access := &accessDesc{locationKind: deviceLocation, flags: readWrite}
	if err := a.check("cuDeviceGet", a.deviceGet(&access.device, int32(device))); err != nil {
		return err
	}
	return a.call(memSetAccess, uintptr(p), uintptr(bytes), uintptr(unsafe.Pointer(access)), 1)
}

// Unmap ends a mapping of Map.
func (a *API) Unmap(p Pointer, bytes int64) error {
	if err := a.call(memUnmap, uintptr(p), uintptr(bytes)); err != nil {
		return err
	}
	return a.call(memAddressFree, uintptr(p), uintptr(bytes))
}

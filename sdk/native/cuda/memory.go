package cuda

import "unsafe"

// Pointer is a CUdeviceptr: an address in the memory of a device.
type Pointer uintptr

// Alloc takes memory of the current context's device, aligned to at least 256 bytes.
func (a *API) Alloc(bytes int64) (Pointer, error) {
	p := new(Pointer)
	err := a.call(memAlloc, uintptr(unsafe.Pointer(p)), uintptr(bytes))
	return *p, err
}

// Free gives memory of Alloc back. It waits for the device.
func (a *API) Free(p Pointer) error { return a.call(memFree, uintptr(p)) }

// MemInfo is how many bytes the current context's device has free and in all.
func (a *API) MemInfo() (free, total int64, err error) {
	f, t := new(uintptr), new(uintptr)
	err = a.call(memGetInfo, uintptr(unsafe.Pointer(f)), uintptr(unsafe.Pointer(t)))
	return int64(*f), int64(*t), err
}

// ToDevice copies from host memory and returns when dst is complete, for whatever stream. The driver's own function may return
// when src is staged, and streams of NewStream do not wait for the default stream that copies it on.
func (a *API) ToDevice(dst Pointer, src []byte) error {
	err := a.call(memcpyHtoD, uintptr(dst), uintptr(unsafe.Pointer(unsafe.SliceData(src))), uintptr(len(src)))
	return a.settled(err)
}

// settled waits for the default stream, unless there is an error already.
func (a *API) settled(err error) error {
	if err != nil {
		return err
	}
	return a.SynchronizeStream(0)
}

// ToHost copies into host memory and returns when dst is complete. It does not wait for streams of NewStream: what they write to
// src must be done.
func (a *API) ToHost(dst []byte, src Pointer) error {
	return a.call(memcpyDtoH, uintptr(unsafe.Pointer(unsafe.SliceData(dst))), uintptr(src), uintptr(len(dst)))
}

// ToDeviceAsync copies from host memory in stream order. The memory must be pinned (AllocHost), or must stay unchanged
// and reachable until the stream has come past the copy.
func (a *API) ToDeviceAsync(dst Pointer, src []byte, s Stream) error {
	return a.call(memcpyHtoDAsync, uintptr(dst), uintptr(unsafe.Pointer(unsafe.SliceData(src))), uintptr(len(src)), uintptr(s))
}

// ToHostAsync is the opposite of ToDeviceAsync.
func (a *API) ToHostAsync(dst []byte, src Pointer, s Stream) error {
	return a.call(memcpyDtoHAsync, uintptr(unsafe.Pointer(unsafe.SliceData(dst))), uintptr(src), uintptr(len(dst)), uintptr(s))
}

// CopyAsync copies within device memory in stream order.
func (a *API) CopyAsync(dst, src Pointer, bytes int64, s Stream) error {
	return a.call(memcpyDtoDAsync, uintptr(dst), uintptr(src), uintptr(bytes), uintptr(s))
}

// Fill sets every byte of device memory and returns when that is done, for whatever stream: see ToDevice.
func (a *API) Fill(dst Pointer, value byte, bytes int64) error {
	return a.settled(a.call(memsetD8, uintptr(dst), uintptr(value), uintptr(bytes)))
}

// FillAsync is Fill in stream order.
func (a *API) FillAsync(dst Pointer, value byte, bytes int64, s Stream) error {
	return a.call(memsetD8Async, uintptr(dst), uintptr(value), uintptr(bytes), uintptr(s))
}

// AllocHost takes page-locked host memory that every context may read and write.
func (a *API) AllocHost(bytes int64) ([]byte, error) {
	const portable, mapped = 1, 2
	p := new(unsafe.Pointer)
	if err := a.call(memHostAlloc, uintptr(unsafe.Pointer(p)), uintptr(bytes), portable|mapped); err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(*p), bytes), nil
}

// FreeHost gives memory of AllocHost back.
func (a *API) FreeHost(memory []byte) error {
	return a.call(memFreeHost, uintptr(unsafe.Pointer(unsafe.SliceData(memory))))
}

// HostPointer is where the device sees memory of AllocHost or RegisterHost.
func (a *API) HostPointer(memory []byte) (Pointer, error) {
	p := new(Pointer)
	err := a.call(memHostGetDevicePointer, uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(unsafe.SliceData(memory))), 0)
	return *p, err
}

// RegisterHost page-locks host memory that begins at a page, and lets every context read and write it.
func (a *API) RegisterHost(memory []byte) error {
	const portable, mapped = 1, 2
	return a.call(memHostRegister, uintptr(unsafe.Pointer(unsafe.SliceData(memory))), uintptr(len(memory)), portable|mapped)
}

// UnregisterHost ends RegisterHost.
func (a *API) UnregisterHost(memory []byte) error {
	return a.call(memHostUnregister, uintptr(unsafe.Pointer(unsafe.SliceData(memory))))
}

// Allocation is what the driver knows of an address.
type Allocation struct {
	Device int // index of the device whose memory it is
	Host   bool
	Start  Pointer // the allocation that holds it
	Bytes  int64
}

const (
	attributeMemoryType = 2
	attributeDevice     = 9
	attributeStart      = 11
	attributeSize       = 12
	memoryTypeHost      = 1
)

// Allocation looks an address up. The error has the code InvalidValue if the driver does not know it: memory that was
// neither allocated nor registered with CUDA, or has been freed.
func (a *API) Allocation(p Pointer) (Allocation, error) {
	v := new([4]uintptr)
	for i, attribute := range []uintptr{attributeMemoryType, attributeDevice, attributeStart, attributeSize} {
		if err := a.call(pointerGetAttribute, uintptr(unsafe.Pointer(&v[i])), attribute, uintptr(p)); err != nil {
			return Allocation{}, err
		}
	}
	return Allocation{Host: uint32(v[0]) == memoryTypeHost, Device: int(int32(v[1])), Start: Pointer(v[2]), Bytes: int64(v[3])}, nil
}

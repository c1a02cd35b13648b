package cuda

import "unsafe"

const attributeMultiprocessors = 16

// Multiprocessors is how many a device has.
func (a *API) Multiprocessors(device int) (int, error) {
	var handle, n int32
	if err := a.check("cuDeviceGet", a.deviceGet(&handle, int32(device))); err != nil {
		return 0, err
	}
	err := a.check("cuDeviceGetAttribute", a.getAttribute(&n, attributeMultiprocessors, handle))
	return int(n), err
}

// Occupancy is how many blocks of so many threads of a kernel fit on one multiprocessor at once. In a driver that loads kernels
// when they are first used, the kernel is loaded then.
func (a *API) Occupancy(f Function, block, sharedBytes int) (int, error) {
	n := new(int32)
	err := a.call(occupancy, uintptr(unsafe.Pointer(n)), uintptr(f), uintptr(block), uintptr(sharedBytes))
	return int(*n), err
}

// Resident is how many blocks of a kernel a device can run at once, if it runs nothing else.
func (a *API) Resident(f Function, device, block, sharedBytes int) (int, error) {
	processors, err := a.Multiprocessors(device)
	if err != nil {
		return 0, err
	}
	each, err := a.Occupancy(f, block, sharedBytes)
	return each * processors, err
}

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

// Occupancy is how many blocks of so many threads of a kernel fit on one multiprocessor at once.
func (a *API) Occupancy(f Function, block, sharedBytes int) (int, error) {
	n := new(int32)
	err := a.call(occupancy, uintptr(unsafe.Pointer(n)), uintptr(f), uintptr(block), uintptr(sharedBytes))
	return int(*n), err
}

package nccl

import "unsafe"

// MemAlloc takes device memory that can be shared between GPUs and registered as a window.
func (a *API) MemAlloc(bytes int64) (uintptr, error) {
	p := new(uintptr)
	err := a.call(memAlloc, uintptr(unsafe.Pointer(p)), uintptr(bytes))
	return *p, err
}

// MemFree gives memory of MemAlloc back.
func (a *API) MemFree(p uintptr) error { return a.call(memFree, p) }

// Register tells a communicator of a buffer that will be used often; Deregister takes the handle.
func (a *API) Register(c Comm, p uintptr, bytes int64) (uintptr, error) {
	h := new(uintptr)
	err := a.call(commRegister, uintptr(c), p, uintptr(bytes), uintptr(unsafe.Pointer(h)))
	return *h, err
}

// Deregister ends a registration.
func (a *API) Deregister(c Comm, handle uintptr) error {
	return a.call(commDeregister, uintptr(c), handle)
}

// RegisterWindow makes memory of MemAlloc a symmetric window: every rank calls it with as many bytes, in the same order.
// A library that cannot (no peer-to-peer access, say) gives a zero window and no error.
func (a *API) RegisterWindow(c Comm, p uintptr, bytes int64) (Window, error) {
	const symmetric = 1
	w := new(Window)
	err := a.call(windowRegister, uintptr(c), p, uintptr(bytes), uintptr(unsafe.Pointer(w)), symmetric)
	return *w, err
}

// DeregisterWindow ends a window; every rank calls it.
func (a *API) DeregisterWindow(c Comm, w Window) error {
	return a.call(windowDeregister, uintptr(c), uintptr(w))
}

package nccl

import (
	"encoding/binary"
	"unsafe"

	"github.com/weir-project/weir/sdk/native/dl"
)

// UniqueID makes an id. The process that makes it must stay until all ranks have made their communicator.
func (a *API) UniqueID() (UniqueID, error) {
	id := new(UniqueID)
	err := a.call(getUniqueID, uintptr(unsafe.Pointer(id)))
	return *id, err
}

// Init makes a rank's communicator on the current device; it returns when all ranks have called it.
func (a *API) Init(world, rank int, id UniqueID) (Comm, error) {
	c := new(Comm)
	if a.address[commInitRankScalable] != 0 {
		ids := new(UniqueID)
		*ids = id
		err := a.call(commInitRankScalable, uintptr(unsafe.Pointer(c)), uintptr(world), uintptr(rank), 1, uintptr(unsafe.Pointer(ids)), 0)
		return *c, err
	}
	var words [len(id) / 8]uint64
	for i := range words {
		words[i] = binary.NativeEndian.Uint64(id[8*i:])
	}
	if f := a.address[commInitRankConfig]; f != 0 {
		err := a.check(commInitRankConfig, dl.CallStruct(f, words[:], 2, uintptr(unsafe.Pointer(c)), uintptr(world), uintptr(rank), 0))
		return *c, err
	}
	err := a.check(commInitRank, dl.CallStruct(a.address[commInitRank], words[:], 2, uintptr(unsafe.Pointer(c)), uintptr(world), uintptr(rank)))
	return *c, err
}

// Abort ends a communicator at once: kernels of it that run leave, calls that wait return. It may wait for graphs that
// hold calls of the communicator to be destroyed.
func (a *API) Abort(c Comm) error { return a.call(commAbort, uintptr(c)) }

// Finalize has the ranks finish what is outstanding, before Destroy. Older libraries have no need of it.
func (a *API) Finalize(c Comm) error {
	if a.address[commFinalize] == 0 {
		return nil
	}
	return a.call(commFinalize, uintptr(c))
}

// Destroy gives a communicator up.
func (a *API) Destroy(c Comm) error { return a.call(commDestroy, uintptr(c)) }

// AsyncError is what went wrong in a communicator after the call that caused it had returned; nil for nothing.
func (a *API) AsyncError(c Comm) error {
	result := new(int32)
	if err := a.call(commGetAsyncError, uintptr(c), uintptr(unsafe.Pointer(result))); err != nil {
		return err
	}
	if *result == resultSuccess || *result == resultInProgress {
		return nil
	}
	return a.failure("asynchronous error", int(*result))
}

// AllReduce enqueues an all-reduce of count elements on a stream.
func (a *API) AllReduce(src, dst uintptr, count int64, dt DataType, op Op, c Comm, stream uintptr) error {
	return a.call(allReduce, src, dst, uintptr(count), uintptr(dt), uintptr(op), uintptr(c), stream)
}

// FillAllReduce makes a step of AllReduce, for callers that must not allocate; AllReduceFailed turns its result into an error.
func (a *API) FillAllReduce(s *dl.Step, src, dst uintptr, count int64, dt DataType, op Op, c Comm, stream uintptr) {
	s.Function = a.address[allReduce]
	s.Args = [...]uintptr{src, dst, uintptr(count), uintptr(dt), uintptr(op), uintptr(c), stream, 0, 0, 0, 0, 0}
}

// AllReduceFailed is the error of an all-reduce that returned another result than 0.
func (a *API) AllReduceFailed(result int) error { return a.failure(symbols[allReduce], result) }

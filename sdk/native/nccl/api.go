package nccl

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/native/dl"
)

// function numbers the functions of a library.
type function int

const (
	getUniqueID function = iota
	commInitRankScalable
	commInitRankConfig
	commInitRank
	commAbort
	commFinalize
	commDestroy
	commGetAsyncError
	allReduce
	getErrorString
	getLastError
	memAlloc
	memFree
	commRegister
	commDeregister
	windowRegister
	windowDeregister
	numFunctions
)

var symbols = [numFunctions]string{
	getUniqueID:          "ncclGetUniqueId",
	commInitRankScalable: "ncclCommInitRankScalable",
	commInitRankConfig:   "ncclCommInitRankConfig",
	commInitRank:         "ncclCommInitRank",
	commAbort:            "ncclCommAbort",
	commFinalize:         "ncclCommFinalize",
	commDestroy:          "ncclCommDestroy",
	commGetAsyncError:    "ncclCommGetAsyncError",
	allReduce:            "ncclAllReduce",
	getErrorString:       "ncclGetErrorString",
	getLastError:         "ncclGetLastError",
	memAlloc:             "ncclMemAlloc",
	memFree:              "ncclMemFree",
	commRegister:         "ncclCommRegister",
	commDeregister:       "ncclCommDeregister",
	windowRegister:       "ncclCommWindowRegister",
	windowDeregister:     "ncclCommWindowDeregister",
}

// SymmetricSymbols are the functions that symmetric memory takes beside those of Missing.
var SymmetricSymbols = []string{"ncclMemAlloc", "ncclMemFree", "ncclCommWindowRegister", "ncclCommWindowDeregister"}

// SymmetricVersion is the oldest NCCL with windows of symmetric memory.
const SymmetricVersion = "2.27"

// MultiRankVersion is the oldest NCCL that takes several ranks on one GPU in one host (NCCL_MULTI_RANK_GPU_ENABLE).
const MultiRankVersion = "2.30"

const (
	resultSuccess    = 0
	resultInProgress = 7
)

// UniqueID names a communicator that is to be made; one rank makes it and gives it to all.
type UniqueID [128]byte

// Comm is an ncclComm_t; the zero value is none.
type Comm uintptr

// Window is an ncclWindow_t.
type Window uintptr

// API is a library with the NCCL ABI. Its methods may be called concurrently; what NCCL demands of the order of calls on
// one communicator holds all the same. Unless one says otherwise it works on the calling thread's current CUDA device.
type API struct {
	lib     *dl.Library
	address [numFunctions]uintptr
}

// Bind finds a library's functions. The error is a *dl.SymbolError naming one that running a plan cannot do without; see
// Missing for all of them.
func Bind(lib *dl.Library) (*API, error) {
	if missing := Missing(lib); len(missing) > 0 {
		return nil, &dl.SymbolError{Library: lib.Path(), Symbol: strings.Join(missing, ", ")}
	}
	a := &API{lib: lib}
	for f, name := range symbols {
		if address, err := lib.Symbol(name); err == nil {
			a.address[f] = address
		}
	}
	return a, nil
}

// Path is the absolute path of the library.
func (a *API) Path() string { return a.lib.Path() }

// call calls a function and turns a failure into an *Error.
//
//go:uintptrescapes
func (a *API) call(f function, args ...uintptr) error {
	if a.address[f] == 0 {
		return &dl.SymbolError{Library: a.lib.Path(), Symbol: symbols[f]}
	}
	return a.check(f, dl.Call(a.address[f], args...))
}

func (a *API) check(f function, result uintptr) error {
	if result == resultSuccess {
		return nil
	}
	return a.failure(symbols[f], int(int32(result)))
}

// failure asks the library for its own words.
func (a *API) failure(call string, result int) *Error {
	e := &Error{Call: call, Result: result}
	e.Text = text(dl.Call(a.address[getErrorString], uintptr(result)))
	if f := a.address[getLastError]; f != 0 {
		e.Last = strings.TrimSpace(text(dl.Call(f, 0)))
	}
	return e
}

// text reads a C string that the library owns.
func text(address uintptr) string {
	if address == 0 {
		return ""
	}
	return unix.BytePtrToString(*(**byte)(unsafe.Pointer(&address)))
}

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

// DataType and Op are NCCL's numbers.
type (
	DataType int32
	Op       int32
)

var dataTypes = [collective.NumDataTypes]DataType{
	collective.Int8: 0, collective.Uint8: 1, collective.Int32: 2, collective.Int64: 4, collective.Float16: 6,
	collective.Float32: 7, collective.Float64: 8, collective.BFloat16: 9,
}

var ops = [collective.NumOps]Op{collective.Sum: 0, collective.Prod: 1, collective.Max: 2, collective.Min: 3, collective.Avg: 4}

// TypeOf is NCCL's number of a valid data type.
func TypeOf(d collective.DataType) DataType { return dataTypes[d] }

// OpOf is NCCL's number of a valid reduce op.
func OpOf(o collective.Op) Op { return ops[o] }

// Loaded are the copies of NCCL that are in this process already, with their versions; a version that the copy does not
// tell is "".
func Loaded() ([]collective.Library, error) {
	paths, err := dl.Loaded("libnccl.so")
	if err != nil {
		return nil, err
	}
	var found []collective.Library
	for _, path := range paths {
		lib, err := dl.Open(path) // the loader counts another user of the same copy
		if err != nil {
			return found, fmt.Errorf("the copy of NCCL that this process has loaded: %w", err)
		}
		version, err := Version(lib)
		if err != nil {
			version = ""
		}
		found = append(found, collective.Library{Name: "nccl", Path: lib.Path(), Version: version})
	}
	return found, nil
}

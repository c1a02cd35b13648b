package nccl

import (
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

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

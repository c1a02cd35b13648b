//go:build cgo

package main

// #include "weir.h"
// #include "text.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"unsafe"

	"github.com/weir-project/weir/sdk/cabi/internal/handle"
	"github.com/weir-project/weir/sdk/rank"
)

// errInvalid is wrapped by the errors of arguments that are out of range.
var errInvalid = errors.New("invalid argument")

// report writes an error to where the calling C thread keeps its last, and is its code.
func report(to *C.char, what string, err error) C.weir_result {
	if err == nil {
		return C.WEIR_OK
	}
	write(to, what+": "+err.Error())
	var failed *rank.GroupError
	switch {
	case errors.As(err, &failed):
		return C.WEIR_GROUP_FAILED
	case errors.Is(err, rank.ErrClosed), errors.Is(err, handle.ErrNone):
		return C.WEIR_CLOSED
	case errors.Is(err, rank.ErrBusy):
		return C.WEIR_BUSY
	case errors.Is(err, context.DeadlineExceeded):
		return C.WEIR_TIMEOUT
	case errors.Is(err, rank.ErrRefused), errors.Is(err, errInvalid):
		return C.WEIR_INVALID
	}
	return C.WEIR_ERROR
}

// write puts text where C reads it, cut where it must be. A thread without memory for it gets none.
func write(to *C.char, text string) {
	if to == nil {
		return
	}
	room := unsafe.Slice((*byte)(unsafe.Pointer(to)), C.WEIR_TEXT)
	room[copy(room[:len(room)-1], text)] = 0
}

// survive turns a panic into an error: a C program cannot recover from one. It is deferred by every exported function.
func survive(to *C.char, what string, code *C.weir_result) {
	if p := recover(); p != nil {
		write(to, fmt.Sprintf("%s: a fault of Weir: %v\n%s", what, p, debug.Stack()))
		*code = C.WEIR_PANIC
	}
}

// Package nccl binds what Weir needs of a library with the NCCL ABI.
package nccl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/sdk/native/dl"
)

// LibraryName is how the loader knows NCCL.
const LibraryName = "libnccl.so.2"

// OldestVersion is the oldest NCCL that Weir runs.
const OldestVersion = "2.23"

// Error is a call that NCCL says failed.
type Error struct {
	Call   string // such as "ncclGetVersion"
	Result int
	Text   string // what the library calls it, such as "unhandled system error"; may be ""
	Last   string // the last message that the library wrote; may be ""
}

var results = []string{
	"ncclSuccess", "ncclUnhandledCudaError", "ncclSystemError", "ncclInternalError", "ncclInvalidArgument",
	"ncclInvalidUsage", "ncclRemoteError", "ncclInProgress",
}

func (e *Error) Error() string {
	name := "ncclResult_t"
	if e.Result >= 0 && e.Result < len(results) {
		name = results[e.Result]
	}
	s := fmt.Sprintf("%s: %s (%d)", e.Call, name, e.Result)
	for _, more := range []string{e.Text, e.Last} {
		if more != "" {
			s += ", " + more
		}
	}
	return s
}

// needed are the functions that running a library plan takes. Of those in one row, one is enough.
var needed = [][]string{
	{"ncclGetVersion"},
	{"ncclGetUniqueId"},
	{"ncclCommInitRankScalable", "ncclCommInitRankConfig", "ncclCommInitRank"},
	{"ncclAllReduce"},
	{"ncclCommAbort"},
	{"ncclCommGetAsyncError"},
	{"ncclCommDestroy"},
	{"ncclGetErrorString"},
}

// Missing lists the functions that running a library plan takes and the library lacks, such as "ncclAllReduce" or
// "ncclCommInitRankScalable or ncclCommInitRankConfig or ncclCommInitRank".
func Missing(lib *dl.Library) []string {
	return lo.FilterMap(needed, func(names []string, _ int) (string, bool) {
		return strings.Join(names, " or "), !slices.ContainsFunc(names, lib.Has)
	})
}

// Version asks the library for its version, such as "2.28.9".
func Version(lib *dl.Library) (string, error) {
	var getVersion func(version *int32) int32
	if err := lib.Bind(&getVersion, "ncclGetVersion"); err != nil {
		return "", err
	}
	var code int32
	if result := getVersion(&code); result != 0 {
		return "", &Error{Call: "ncclGetVersion", Result: int(result)}
	}
	if code < 1000 {
		return "", fmt.Errorf("ncclGetVersion: version code %d is not one of NCCL's", code)
	}
	return FormatVersion(int(code)), nil
}

// FormatVersion writes NCCL's version code: two digits each for minor and patch since 2.9 (22809 is 2.28.9), before
// that one for minor (2708 is 2.7.8).
func FormatVersion(code int) string {
	unit := 10000
	if code < unit {
		unit = 1000
	}
	return fmt.Sprintf("%d.%d.%d", code/unit, code%unit/100, code%100)
}

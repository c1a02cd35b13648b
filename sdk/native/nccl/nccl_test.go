package nccl_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weir-project/weir/sdk/native/dl"
	"github.com/weir-project/weir/sdk/native/nccl"
	"github.com/weir-project/weir/tests/require"
)

// source is a library with functions that do nothing, beside what ncclGetVersion does.
func source(getVersion string, functions ...string) string {
	s := "int ncclGetVersion(int *v) { " + getVersion + " }\n"
	for _, f := range functions {
		s += "int " + f + "(void) { return 0; }\n"
	}
	return s
}

var all = []string{
	"ncclGetUniqueId", "ncclCommInitRank", "ncclAllReduce", "ncclCommAbort", "ncclCommGetAsyncError", "ncclCommDestroy", "ncclGetErrorString",
}

func open(t *testing.T, source string) *dl.Library {
	t.Helper()
	lib, err := dl.Open(require.Library(t, nccl.LibraryName, source))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lib.Close(); err != nil {
			t.Error(err)
		}
	})
	return lib
}

func TestVersion(t *testing.T) {
	if v, err := nccl.Version(open(t, source("*v = 22809; return 0;"))); err != nil || v != "2.28.9" {
		t.Errorf("got %q, %v", v, err)
	}
	_, err := nccl.Version(open(t, source("return 2;")))
	var failed *nccl.Error
	if !errors.As(err, &failed) || failed.Result != 2 || err.Error() != "ncclGetVersion: ncclSystemError (2)" {
		t.Errorf("a failing call gives %v", err)
	}
	if _, err := nccl.Version(open(t, source("*v = -1; return 0;"))); err == nil || !strings.Contains(err.Error(), "-1") {
		t.Errorf("a senseless version gives %v", err)
	}
	var missing *dl.SymbolError
	if _, err := nccl.Version(open(t, "int nothing;")); !errors.As(err, &missing) || missing.Symbol != "ncclGetVersion" {
		t.Errorf("a library without ncclGetVersion gives %v", err)
	}
}

func TestMissing(t *testing.T) {
	const version = "*v = 22809; return 0;"
	if got := nccl.Missing(open(t, source(version, all...))); len(got) != 0 {
		t.Errorf("a whole library lacks %v", got)
	}
	scalable := append(slices.Clone(all[:1]), all[2:]...)
	if got := nccl.Missing(open(t, source(version, append(scalable, "ncclCommInitRankScalable")...))); len(got) != 0 {
		t.Errorf("one of two ways to start is enough, missing: %v", got)
	}
	got := nccl.Missing(open(t, source(version, slices.DeleteFunc(scalable, func(s string) bool { return s == "ncclAllReduce" })...)))
	if want := []string{"ncclCommInitRankScalable or ncclCommInitRankConfig or ncclCommInitRank", "ncclAllReduce"}; !slices.Equal(got, want) {
		t.Errorf("missing %v, want %v", got, want)
	}
}

func TestFormatVersion(t *testing.T) {
	for code, want := range map[int]string{22809: "2.28.9", 22304: "2.23.4", 21005: "2.10.5", 20908: "2.9.8", 2805: "2.8.5", 2708: "2.7.8", 30000: "3.0.0"} {
		if got := nccl.FormatVersion(code); got != want {
			t.Errorf("%d: got %s, want %s", code, got, want)
		}
	}
}

func TestErrorNames(t *testing.T) {
	for result, want := range map[int]string{1: "x: ncclUnhandledCudaError (1)", 7: "x: ncclInProgress (7)", 99: "x: ncclResult_t (99)", -1: "x: ncclResult_t (-1)"} {
		if got := (&nccl.Error{Call: "x", Result: result}).Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

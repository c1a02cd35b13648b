package nccl_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/collective"
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

// TestLoadedByTheDropIn: of several copies the one is taken that the drop-in passes calls to, whatever its file is called; without it all
// are named, and the drop-in is none.
func TestLoadedByTheDropIn(t *testing.T) {
	renamed := filepath.Join(t.TempDir(), "another-name.so")
	if err := os.Rename(require.Library(t, nccl.LibraryName, source("*v = 22809; return 0;")), renamed); err != nil {
		t.Fatal(err)
	}
	other := open(t, source("*v = 22803; return 0;"))
	versions := func() []string {
		all, err := nccl.Loaded()
		if err != nil {
			t.Fatal(err)
		}
		return lo.Map(all, func(l collective.Library, _ int) string { return l.Version + " " + l.Path })
	}
	if got, want := versions(), []string{"2.28.3 " + other.Path()}; !slices.Equal(got, want) {
		t.Errorf("without a drop-in: %v, want %v", got, want)
	}
	dropIn := func(opens string) {
		if _, err := dl.Open(require.Library(t, "libweir-nccl.so.2", `const int weir_nccl_dropin = 1; const char *weir_nccl_opened(void) { return "`+opens+`"; }`)); err != nil {
			t.Fatal(err)
		}
	}
	dropIn("")
	if got, want := versions(), []string{"2.28.3 " + other.Path()}; !slices.Equal(got, want) {
		t.Errorf("with one that finds none: %v, want %v", got, want)
	}
	dropIn(renamed)
	if got, want := versions(), []string{"2.28.9 " + renamed}; !slices.Equal(got, want) {
		t.Errorf("with one: %v, want %v", got, want)
	}
}

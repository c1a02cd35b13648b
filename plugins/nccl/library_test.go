package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/sdk/backendtest"
	"github.com/weir-project/weir/sdk/native/cuda"
	"github.com/weir-project/weir/sdk/native/nccl"
	"github.com/weir-project/weir/sdk/plugin"
	"github.com/weir-project/weir/tests/require"
)

// driverSource is a CUDA driver whose cuInit returns a code.
const driverSource = `
int cuInit(unsigned f) { return %d; }
int cuGetErrorName(int e, const char **s) { *s = e == 100 ? "CUDA_ERROR_NO_DEVICE" : e == 803 ? "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" : 0; return *s == 0; }
int cuDriverGetVersion(int *v) { return 0; }
int cuDeviceGetCount(int *n) { return 0; }
int cuDeviceGet(int *d, int i) { return 0; }
int cuDeviceGetName(char *s, int n, int d) { return 0; }
int cuDeviceGetUuid(char *s, int d) { return 0; }
int cuDeviceGetPCIBusId(char *s, int n, int d) { return 0; }
int cuDeviceGetAttribute(int *v, int a, int d) { return 0; }
`

func driver(t *testing.T, initCode int) string {
	t.Helper()
	return require.Library(t, cuda.LibraryName, fmt.Sprintf(driverSource, initCode))
}

// ncclSource is a library of a version, without the functions named.
func ncclSource(version int, without ...string) string {
	s := fmt.Sprintf("int ncclGetVersion(int *v) { *v = %d; return 0; }\n", version)
	for _, f := range []string{
		"ncclGetUniqueId", "ncclCommInitRank", "ncclAllReduce", "ncclCommAbort", "ncclCommGetAsyncError", "ncclCommDestroy", "ncclGetErrorString",
	} {
		if !strings.Contains(strings.Join(without, " "), f) {
			s += "int " + f + "(void) { return 0; }\n"
		}
	}
	return s
}

func ncclLibrary(t *testing.T, version int, without ...string) string {
	t.Helper()
	return require.Library(t, nccl.LibraryName, ncclSource(version, without...))
}

// onlyHere looks nowhere but at what the test names.
func onlyHere(driver, name string, prefixes ...string) prober {
	return prober{driver: driver, name: name, prefixes: append([]string{"/nowhere"}, prefixes...)}
}

func request(own ...collective.Library) backend.Request {
	g := collective.HostGroup("g", max(2, len(own)))
	for i, lib := range own {
		if lib.Name != "" {
			g.Ranks[i].Libraries = []collective.Library{{Name: "other", Version: "1"}, lib}
		}
	}
	return backend.Request{Group: g, Class: collective.Class{Memory: collective.CUDA}}
}

func own(path, version string) collective.Library {
	return collective.Library{Name: "nccl", Path: path, Version: version}
}

// accept asks a fresh backend twice and returns the one answer.
func accept(t *testing.T, s settings, p prober, req backend.Request) (*library, backend.Verdict) {
	t.Helper()
	l := newLibrary()
	l.prober = p
	l.settings.Library = s.Library
	first, err := l.Accept(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Validate(); err != nil {
		t.Errorf("invalid verdict: %v", err)
	}
	second, err := l.Accept(t.Context(), req)
	if diff := cmp.Diff(first, second); err != nil || diff != "" {
		t.Errorf("asked again: error %v (-first +second):\n%s", err, diff)
	}
	return l, first
}

func checkVerdict(t *testing.T, v backend.Verdict, want ...string) {
	t.Helper()
	if v.Kind != backend.Decline || len(v.Reasons) != len(want) {
		t.Fatalf("got %s, want a decline with %d reasons", v, len(want))
	}
	for i, w := range want {
		if !strings.HasPrefix(v.Reasons[i].String(), w) {
			t.Errorf("reason %d: got %q, want it to begin with %q", i, v.Reasons[i], w)
		}
	}
}

// TestHostMemoryIsDeclinedWithoutACall needs no library: requirements say it.
func TestHostMemoryIsDeclinedWithoutACall(t *testing.T) {
	for _, n := range []int{1, 2, 8, 300} {
		req := backend.Request{Group: collective.HostGroup("g", n)}
		checkVerdict(t, newLibrary().Info().Check(req), "MEMORY: host, needs cuda")
		for i := range collective.NumClasses {
			req.Class = collective.ClassAt(i)
			if v := newLibrary().Info().Check(req); req.Class.Memory == collective.CUDA && v.Kind != backend.Accept {
				t.Errorf("%d ranks, %s: %s", n, req.Class, v)
			}
		}
	}
}

// TestNothingInstalled is what a machine without GPUs answers: every place tried, with the loader's words.
func TestNothingInstalled(t *testing.T) {
	l, v := accept(t, settings{}, onlyHere("/nowhere/libcuda.so.1", "libweir-no-nccl.so.2", "/elsewhere"), request())
	checkVerdict(
		t, v,
		"LIB_MISSING: needs libcuda.so.1 (/nowhere/libcuda.so.1: no such file or directory)",
		"LIB_MISSING: needs libnccl.so.2 (libweir-no-nccl.so.2: cannot open shared object file: No such file or directory; "+
			"none in a Python package nvidia/nccl below /nowhere, /elsewhere)",
	)
	if p, err := l.Plan(t.Context(), request(), nil); err == nil || !strings.Contains(err.Error(), "LIB_MISSING") {
		t.Errorf("a plan all the same: %v, %v", p, err)
	}
}

func TestFound(t *testing.T) {
	path := ncclLibrary(t, 22809)
	check := func(name, path string, s settings, p prober, req backend.Request) {
		t.Helper()
		l, v := accept(t, s, p, req)
		if diff := cmp.Diff(backend.Accepted(backend.AllBytes()...), v); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
			return
		}
		got, err := l.Plan(t.Context(), req, v.Ranges)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := got.Validate(req.Group.WorldSize()); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(plan.Plan(&plan.Library{Path: path, Version: "2.28.9", Variant: "nccl"}), got); diff != "" {
			t.Errorf("%s: plan (-want +got):\n%s", name, diff)
		}
	}
	cudaDriver := driver(t, 0)
	check("settings", path, settings{Library: path}, onlyHere(cudaDriver, "libweir-no.so"), request())
	check("ranks' own", path, settings{}, onlyHere(cudaDriver, "libweir-no.so"), request(own(path, "2.28.9"), own(path, "2.28.9")))
	check("one rank's own", path, settings{}, onlyHere(cudaDriver, "libweir-no.so"), request(collective.Library{}, own(path, "2.28.9")))
	check("own of unknown version", path, settings{}, onlyHere(cudaDriver, "libweir-no.so"), request(own(path, ""), own(path, "")))
	check("loader's search", path, settings{}, onlyHere(cudaDriver, path), request())
	prefix, inPython := pythonLibrary(t)
	check("after one that is too old", inPython, settings{}, onlyHere(cudaDriver, ncclLibrary(t, 21805), prefix), request())
	check("only in Python's packages", inPython, settings{}, onlyHere(cudaDriver, "libweir-no.so", prefix), request())
}

// TestOwnBeforeTheSettings: what ranks have loaded is taken, newer or older than what the settings name, and it is said.
func TestOwnBeforeTheSettings(t *testing.T) {
	older, newer, cudaDriver := ncclLibrary(t, 22803), ncclLibrary(t, 22809), driver(t, 0)
	for _, c := range []struct{ loaded, version, set string }{{newer, "2.28.9", older}, {older, "2.28.3", newer}} {
		req := request(own(c.loaded, c.version), own(c.loaded, c.version))
		l, v := accept(t, settings{Library: c.set}, onlyHere(cudaDriver, c.set), req)
		want := "ranks have loaded " + c.loaded + ", which is taken instead of " + c.set + " of the settings"
		if v.Kind != backend.Accept || len(v.Reasons) != 1 || v.Reasons[0].Text != want {
			t.Errorf("%s: got %s", c.version, v)
			continue
		}
		got, err := l.Plan(t.Context(), req, v.Ranges)
		if diff := cmp.Diff(plan.Plan(&plan.Library{Path: c.loaded, Version: c.version, Variant: "nccl"}), got); err != nil || diff != "" {
			t.Errorf("%s: %v, plan (-want +got):\n%s", c.version, err, diff)
		}
	}
}

// pythonLibrary puts a library where pip does, below a prefix.
func pythonLibrary(t *testing.T) (prefix, library string) {
	t.Helper()
	prefix = t.TempDir()
	dir := filepath.Join(prefix, "lib", "python3.12", "site-packages", "nvidia", "nccl", "lib")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	library = filepath.Join(dir, nccl.LibraryName)
	if err := os.Rename(ncclLibrary(t, 22809), library); err != nil {
		t.Fatal(err)
	}
	return prefix, library
}

// TestConformance runs the suite on what is installed here, and on a machine that has everything.
func TestConformance(t *testing.T) {
	t.Run("here", func(t *testing.T) { backendtest.Run(t, newLibrary()) })
	t.Run("found", func(t *testing.T) {
		l := newLibrary()
		l.settings.Library, l.prober = ncclLibrary(t, 22809), onlyHere(driver(t, 0), "")
		backendtest.Run(t, l)
	})
}

func TestUnusableLibraries(t *testing.T) {
	cudaDriver := driver(t, 0)
	text := filepath.Join(t.TempDir(), nccl.LibraryName)
	if err := os.WriteFile(text, []byte(strings.Repeat("INPUT(libnccl.so)\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, path string
		want       []string
	}{
		{"absent", "/nowhere/libnccl.so.2", []string{"LIB_MISSING: needs libnccl.so.2 (/nowhere/libnccl.so.2: no such file or directory)"}},
		{"text file", text, []string{"LIB_MISSING: needs libnccl.so.2 (" + text + ": invalid ELF header)"}},
		{"too old", ncclLibrary(t, 22203), []string{"VERSION: 2.22.3, needs 2.23 or newer (/"}},
		{"one symbol missing", ncclLibrary(t, 22809, "ncclAllReduce"), []string{"SYMBOL_MISSING: needs ncclAllReduce (/"}},
		{"two missing", ncclLibrary(t, 22809, "ncclAllReduce", "ncclCommInitRank"), []string{
			"SYMBOL_MISSING: needs ncclCommInitRankScalable or ncclCommInitRankConfig or ncclCommInitRank", "SYMBOL_MISSING: needs ncclAllReduce",
		}},
		{"fails", require.Library(t, nccl.LibraryName, strings.Replace(ncclSource(22809), "return 0", "return 3", 1)), []string{"INIT_FAILED (ncclGetVersion: ncclInternalError (3) of /"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, v := accept(t, settings{Library: c.path}, onlyHere(cudaDriver, ""), request())
			checkVerdict(t, v, c.want...)
			if !strings.Contains(v.Reasons[0].Text, c.path) {
				t.Errorf("%q does not name %s", v.Reasons[0].Text, c.path)
			}
		})
	}
}

func TestUnusableDrivers(t *testing.T) {
	path := ncclLibrary(t, 22809)
	incomplete := require.Library(t, cuda.LibraryName, "int cuInit(unsigned f) { return 0; }")
	for want, library := range map[string]string{
		"INIT_FAILED: CUDA_ERROR_NO_DEVICE, needs a GPU that this process may use (cuInit: CUDA_ERROR_NO_DEVICE (100) of /": driver(t, cuda.NoDevice),
		"VERSION: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, needs a CUDA driver whose":                                             driver(t, cuda.DriverMismatch),
		"INIT_FAILED: CUDA error 999, needs a CUDA driver that starts (cuInit: CUDA error 999 of /":                         driver(t, 999),
		"SYMBOL_MISSING: needs cuDriverGetVersion (" + incomplete:                                                           incomplete,
	} {
		_, v := accept(t, settings{Library: path}, onlyHere(library, ""), request())
		checkVerdict(t, v, want)
	}
	l := newLibrary()
	l.settings = settings{Library: path, Variant: "rccl"}
	l.prober = onlyHere("/nowhere/libcuda.so.1", "")
	if v, err := l.Accept(t.Context(), request()); err != nil || v.Kind != backend.Accept {
		t.Errorf("RCCL needs no CUDA driver: %s, %v", v, err)
	}
}

// TestOwnCopies are verdicts from the facts alone; a look would find nothing.
func TestOwnCopies(t *testing.T) {
	const a, b = "/a/libnccl.so.2", "/b/libnccl.so.2"
	for _, c := range []struct {
		name string
		req  backend.Request
		want string
	}{
		{"none", request(), "accept all sizes"},
		{"same version", request(own(a, "2.28.9"), own(b, "2.28.9")), "accept all sizes"},
		{"unknown version of one file", request(own(a, ""), own(a, "")), "accept all sizes"},
		{"different versions", request(own(a, "2.28.9"), collective.Library{}, own(b, "2.27.3")), "decline; VERSION on rank 2: nccl 2.27.3, needs 2.28.9 as on rank 0 (/b/libnccl.so.2)"},
		{"too old", request(own(a, "2.28.9"), own(b, "2.21.5")), "decline; VERSION on rank 1: nccl 2.21.5, needs 2.23 or newer (/b/libnccl.so.2)"},
		{"two copies in one rank", twice(request(own(a, "2.28.9")), own(b, "2.27.3")), "decline; VERSION on rank 0: nccl 2.28.9 and 2.27.3 in one process, needs one copy (/a/libnccl.so.2, /b/libnccl.so.2)"},
		{"unknown version of another file", request(own(a, "2.28.9"), own(b, "")), "unknown; PROBE_UNAVAILABLE on rank 1: version of the rank's nccl unknown, needs one version in all ranks"},
		{"unknown version of the first", request(own(a, ""), own(b, "2.28.9")), "unknown; PROBE_UNAVAILABLE on rank 0: version of the rank's nccl unknown, needs one version in all ranks"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.req.Hypothetical = true
			if _, v := accept(t, settings{}, onlyHere("/nowhere/libcuda.so.1", "libweir-no.so"), c.req); v.String() != c.want {
				t.Errorf("got  %s\nwant %s", v, c.want)
			}
		})
	}
}

// twice is a request whose rank 0 has loaded another copy too.
func twice(req backend.Request, second collective.Library) backend.Request {
	req.Group.Ranks[0].Libraries = append(req.Group.Ranks[0].Libraries, second)
	return req
}

// TestSharedDevices are groups in which two ranks are on one GPU.
func TestSharedDevices(t *testing.T) {
	req := request()
	req.Hypothetical = true
	for i := range req.Group.Ranks {
		req.Group.Ranks[i].Device = &topology.Device{UUID: "GPU-1"}
	}
	refused := "decline; OTHER on rank 1 (ranks 0 and 1 are both on GPU GPU-1; NCCL wants one for each rank (group.share_devices allows it, for tests))"
	allowed := "accept all sizes; OTHER (ranks 0 and 1 are both on GPU GPU-1: a test arrangement, and slow (group.share_devices))"
	for _, want := range []string{refused, allowed} {
		if _, v := accept(t, settings{}, onlyHere("/nowhere/libcuda.so.1", "libweir-no.so"), req); v.String() != want {
			t.Errorf("got  %s\nwant %s", v, want)
		}
		req.Group.ShareDevices = true
	}
}

func TestOwnCopyIsNotWhatItSaid(t *testing.T) {
	path := ncclLibrary(t, 22809)
	_, v := accept(t, settings{}, onlyHere(driver(t, 0), ""), request(own(path, "2.27.3")))
	checkVerdict(t, v, "VERSION: 2.28.9 at "+path+", needs 2.27.3 as the ranks loaded")
}

func TestDeadline(t *testing.T) {
	l := newLibrary()
	l.probes[""] = &probe{done: make(chan struct{})} // a look that does not end
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if v, err := l.Accept(ctx, request()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %s, %v", v, err)
	}
	if err := l.Release(ctx, "g"); err != nil {
		t.Error(err)
	}
}

func TestConfigure(t *testing.T) {
	for _, c := range []struct {
		values map[string]any
		want   string // part of the error, "" for none
	}{
		{nil, ""},
		{map[string]any{"library": "/opt/libnccl.so.2", "variant": "nccl-symm"}, ""},
		{map[string]any{"library": "/opt/librccl.so.1", "variant": "rccl"}, ""},
		{map[string]any{"library": "libnccl.so.2"}, `setting library: "libnccl.so.2" is not an absolute path`},
		{map[string]any{"variant": "ncl"}, `setting variant: unknown "ncl", want nccl, nccl-symm, rccl or mscclpp`},
		{map[string]any{"variant": "rccl"}, "setting variant: rccl needs the path of its library"},
		{map[string]any{"libary": "/x"}, "libary"},
		{map[string]any{"library": 7}, "library"},
	} {
		l := newLibrary()
		err := l.configure(plugin.NewSettings(c.values).Decode)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got error %v, want %q", c.values, err, c.want)
		}
		if err != nil && l.settings != newLibrary().settings {
			t.Errorf("%v: refused settings were taken", c.values)
		}
	}
}

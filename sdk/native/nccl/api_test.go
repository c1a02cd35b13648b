package nccl_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/native/dl"
	"github.com/weir-project/weir/sdk/native/nccl"
	"github.com/weir-project/weir/tests/fakegpu"
)

func bind(t testing.TB, flags ...string) *nccl.API {
	t.Helper()
	lib, err := dl.Open(fakegpu.NCCL(t, flags...))
	if err != nil {
		t.Fatal(err)
	}
	a, err := nccl.Bind(lib)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// ranks makes communicators of two ranks in this process.
func ranks(t testing.TB, a *nccl.API) (comms [2]nccl.Comm) {
	t.Helper()
	id, err := a.UniqueID()
	if err != nil {
		t.Fatal(err)
	}
	var errs [2]error
	var wg sync.WaitGroup
	for r := range comms {
		wg.Go(func() { comms[r], errs[r] = a.Init(2, r, id) })
	}
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	return comms
}

// TestInit makes communicators by each of the functions that libraries have for it, two of which take the unique id by
// value.
func TestInit(t *testing.T) {
	for name, flags := range map[string][]string{"Scalable": nil, "Config": {"-DNO_SCALABLE"}, "InitRank": {"-DNO_SCALABLE", "-DNO_CONFIG"}} {
		t.Run(name, func(t *testing.T) {
			a := bind(t, flags...)
			comms := ranks(t, a)
			buffers := [2][4]float32{{1, 2, 3, 4}, {10, 20, 30, 40}}
			var wg sync.WaitGroup
			for r, c := range comms {
				wg.Go(func() {
					p := uintptr(unsafe.Pointer(&buffers[r]))
					if err := a.AllReduce(p, p, 4, nccl.TypeOf(collective.Float32), nccl.OpOf(collective.Sum), c, 0); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if want := [4]float32{11, 22, 33, 44}; buffers[0] != want || buffers[1] != want {
				t.Errorf("sums %v", buffers)
			}
			for _, c := range comms {
				if err := errors.Join(a.AsyncError(c), a.Finalize(c), a.Destroy(c)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestErrorsCarryTheLibrarysWords(t *testing.T) {
	t.Setenv("FAKE_NCCL_FAIL", "ncclCommInitRank:2")
	a := bind(t)
	id, err := a.UniqueID()
	if err != nil {
		t.Fatal(err)
	}
	want := "ncclCommInitRankScalable: ncclSystemError (2), unhandled system error, ncclCommInitRank fails on request"
	if _, err := a.Init(1, 0, id); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	old := bind(t, "-DNO_WINDOWS")
	var missing *dl.SymbolError
	if _, err := old.MemAlloc(1); !errors.As(err, &missing) || missing.Symbol != "ncclMemAlloc" {
		t.Errorf("an absent function: %v", err)
	}
	lib, err := dl.Open(fakegpu.NCCL(t, "-DNO_ALLREDUCE"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nccl.Bind(lib); err == nil || !strings.Contains(err.Error(), "no symbol ncclAllReduce") {
		t.Errorf("a library without all-reduce: %v", err)
	}
}

func TestAllReduceAllocates(t *testing.T) {
	a := bind(t)
	id, err := a.UniqueID()
	if err != nil {
		t.Fatal(err)
	}
	c, err := a.Init(1, 0, id)
	if err != nil {
		t.Fatal(err)
	}
	buffer := make([]float32, 8)
	p := uintptr(unsafe.Pointer(&buffer[0]))
	s := dl.NewSequence(1)
	if n := testing.AllocsPerRun(1000, func() {
		a.FillAllReduce(s.Step(0), p, p, 8, nccl.TypeOf(collective.Float32), 0, c, 0)
		if s.Run(0) != 1 {
			t.Error(a.AllReduceFailed(int(s.Step(0).Result)))
		}
	}); n != 0 {
		t.Errorf("%v allocations a call", n)
	}
}

func TestLoaded(t *testing.T) {
	path := bind(t).Path()
	found, err := nccl.Loaded()
	if err != nil {
		t.Fatal(err)
	}
	for _, lib := range found {
		if lib.Path == path && lib.Name == "nccl" && lib.Version == "2.28.9" {
			return
		}
	}
	t.Errorf("%s is not among %v", path, found)
}

package cuda_test

import (
	"bytes"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/weir-project/weir/sdk/native/cuda"
	"github.com/weir-project/weir/tests/fakegpu"
)

// fake is the driver of tests/fakegpu with a context that is current on the test's thread.
func fake(t testing.TB) (*cuda.API, cuda.Context) {
	t.Helper()
	d, err := cuda.Open(fakegpu.CUDA(t))
	if err != nil {
		t.Fatal(err)
	}
	a, err := d.Bind()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Init(); err != nil {
		t.Fatal(err)
	}
	c, err := a.Retain(0)
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	if err := a.SetCurrent(c); err != nil {
		t.Fatal(err)
	}
	return a, c
}

func check(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestMemoryAndStreams(t *testing.T) {
	a, c := fake(t)
	p, err := a.Alloc(1024)
	check(t, err)
	s, err := a.NewStream()
	check(t, err)
	e, err := a.NewEvent(true)
	check(t, err)
	want := bytes.Repeat([]byte{7, 8, 9, 10}, 256)
	got := make([]byte, 1024)
	check(t, a.ToDevice(p, want), a.FillAsync(p, 1, 4, s), a.Record(e, s), a.SynchronizeEvent(e), a.SynchronizeStream(s), a.ToHost(got, p))
	if !bytes.Equal(got[:4], []byte{1, 1, 1, 1}) || !bytes.Equal(got[4:], want[4:]) {
		t.Error("what came back is not what was written")
	}
	if done, err := a.StreamDone(s); !done || err != nil {
		t.Errorf("stream done: %v, %v", done, err)
	}
	if of, err := a.StreamContext(s); of != c || err != nil {
		t.Errorf("the stream's context is %x, %v; want %x", of, err, c)
	}
	m, err := a.Allocation(p + 100)
	check(t, err)
	if m.Start != p || m.Bytes != 1024 || m.Host || m.Device != 0 {
		t.Errorf("allocation %+v of %x", m, p)
	}
	check(t, a.Free(p))
	if _, err := a.Allocation(p); !cuda.Is(err, cuda.InvalidValue) {
		t.Errorf("freed memory: %v", err)
	}
	if _, err := a.Alloc(1 << 40); err == nil || err.Error() != "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2), out of memory" {
		t.Errorf("too much memory: %v", err)
	}
}

// TestDoneForEveryStream: what ToDevice and Fill have written is there for a stream that does not wait for the default one, on
// which the driver does both.
func TestDoneForEveryStream(t *testing.T) {
	t.Setenv("FAKE_CUDA_LATE", "600000")
	a, _ := fake(t)
	p, err := a.Alloc(1 << 20)
	check(t, err)
	s, err := a.NewStream()
	check(t, err)
	want, got := bytes.Repeat([]byte{1, 2, 3, 4}, 1<<18), make([]byte, 1<<20)
	check(t, a.ToDevice(p, want), a.ToHostAsync(got, p, s), a.SynchronizeStream(s))
	if !bytes.Equal(got, want) {
		t.Error("ToDevice returned before the copy was done")
	}
	check(t, a.Fill(p, 9, 1<<20), a.ToHostAsync(got, p, s), a.SynchronizeStream(s))
	if !bytes.Equal(got, bytes.Repeat([]byte{9}, 1<<20)) {
		t.Error("Fill returned before it was done")
	}
}

func TestCapture(t *testing.T) {
	a, _ := fake(t)
	p, err := a.Alloc(16)
	check(t, err)
	s, err := a.NewStream()
	check(t, err)
	check(t, a.Fill(p, 0, 16), a.BeginCapture(s, cuda.CaptureGlobal), a.FillAsync(p, 5, 16, s))
	info, err := a.CaptureInfo(s)
	check(t, err)
	if info.Status != cuda.Capturing || info.ID == 0 || info.Graph == 0 {
		t.Errorf("capture %+v", info)
	}
	var q cuda.Pointer
	check(t, a.Relaxed(func() (err error) { q, err = a.Alloc(16); return err })) // harmless
	g, err := a.EndCapture(s)
	check(t, err)
	x, err := a.Instantiate(g)
	check(t, err)
	if kinds, err := a.NodeKinds(g); !slices.Equal(kinds, []int{2}) || err != nil {
		t.Errorf("nodes %v, %v", kinds, err)
	}
	got := make([]byte, 16)
	check(t, a.DestroyGraph(g), a.ToHost(got, p))
	if got[0] != 0 {
		t.Error("capturing ran it")
	}
	check(t, a.Launch(x, s), a.SynchronizeStream(s), a.ToHost(got, p), a.Free(q))
	if got[0] != 5 {
		t.Error("launching did not run it")
	}

	record := func(fills ...byte) cuda.Graph {
		check(t, a.BeginCapture(s, cuda.CaptureGlobal))
		for _, value := range fills {
			check(t, a.FillAsync(p, value, 16, s))
		}
		g, err := a.EndCapture(s)
		check(t, err)
		return g
	}
	if done, err := a.Update(x, record(6, 7)); done || err != nil {
		t.Errorf("another number of nodes: %v, %v", done, err)
	}
	if done, err := a.Update(x, record(8)); !done || err != nil {
		t.Errorf("a graph that is alike: %v, %v", done, err)
	}
	check(t, a.Launch(x, s), a.SynchronizeStream(s), a.ToHost(got, p), a.DestroyExec(x))
	if got[0] != 8 {
		t.Errorf("launching what was updated gave %d, want 8", got[0])
	}

	check(t, a.BeginCapture(s, cuda.CaptureGlobal))
	if _, err := a.Alloc(16); !cuda.Is(err, 900) {
		t.Errorf("an allocation that breaks a capture: %v", err)
	}
	if _, err := a.EndCapture(s); err == nil {
		t.Error("the capture went on")
	}
}

func TestLane(t *testing.T) {
	a, c := fake(t)
	s, err := a.NewStream()
	check(t, err)
	lane := a.NewLane(c)
	lane.Target().Function = a.Address("cuCtxSetCurrent") // a call that changes the thread's context, as NCCL's do
	for _, own := range []cuda.Context{c, 0, c + 1} {
		check(t, a.SetCurrent(own))
		lane.Target().Args[0] = uintptr(c)
		if status, result, err := lane.Run(s); status != cuda.NotCapturing || result != 0 || err != nil {
			t.Errorf("status %v, result %d, %v", status, result, err)
		}
		if now, _ := a.Current(); now != own {
			t.Errorf("after, context %x; want %x, as before", now, own)
		}
	}
	check(t, a.SetCurrent(0), a.BeginCapture(s, cuda.CaptureThreadLocal))
	lane.Target().Function = 0 // not to be called
	if status, _, err := lane.Run(s); status != cuda.Capturing || err != nil {
		t.Errorf("status %v, %v", status, err)
	}
	_, err = a.EndCapture(s)
	check(t, err)
}

// TestHotPathAllocates holds that calls made for every all-reduce or kernel leave no garbage.
func TestHotPathAllocates(t *testing.T) {
	a, c := fake(t)
	lane, launcher := a.NewLane(c), a.NewLauncher()
	lane.Target().Function = a.Address("cuStreamQuery")
	for _, own := range []cuda.Context{c, 0} {
		check(t, a.SetCurrent(own))
		if n := testing.AllocsPerRun(1000, func() {
			_, _, _ = lane.Run(0)
			_ = launcher.Launch(1, 1, 32, 0, 0, nil)
		}); n != 0 {
			t.Errorf("%v allocations a call with context %x", n, own)
		}
	}
}

func TestFind(t *testing.T) {
	t.Setenv("FAKE_CUDA_DEVICES", "3")
	a, _ := fake(t)
	for name, want := range map[string]int{"0": 0, "2": 2, "GPU-01fa": 1, "0000:12:00.0": 2, "00000000:12:00.0": 2, "12:00.0": 2} {
		if d, err := a.Find(name); err != nil || d.Index != want {
			t.Errorf("%s: device %d, %v; want %d", name, d.Index, err, want)
		}
	}
	for name, want := range map[string]string{
		"3": "device 3 is out of range: this process may use devices 0 to 2", "-1": "out of range",
		"GPU-": "3 devices have a UUID that begins so", "GPU-77": `no device "GPU-77": this process may use 0 GPU-00fafafa-`, "": "no device",
	} {
		if _, err := a.Find(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

func BenchmarkLane(b *testing.B) {
	a, c := fake(b)
	lane := a.NewLane(c)
	lane.Target().Function = a.Address("cuCtxSetCurrent")
	lane.Target().Args[0] = uintptr(c)
	for b.Loop() {
		_, _, _ = lane.Run(0)
	}
}

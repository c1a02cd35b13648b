package fakegpu_test

import (
	"bytes"
	"errors"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/weir-project/weir/sdk/native/cuda"
	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/fakegpu"
)

// driver is the fake with a context that is current on the test's thread, and what the bindings have no function for.
type driver struct {
	*cuda.API
	copyIn func(dst cuda.Pointer, src unsafe.Pointer, bytes uintptr) int32
	fill   func(dst cuda.Pointer, value byte, bytes uintptr) int32
	stream func(s *cuda.Stream, flags uint32) int32
	kernel func(s cuda.Stream, f, argument uintptr) int32
}

func open(t *testing.T) *driver {
	t.Helper()
	d, err := cuda.Open(fakegpu.CUDA(t))
	if err != nil {
		t.Fatal(err)
	}
	a, err := d.Bind()
	if err != nil {
		t.Fatal(err)
	}
	handle, err := purego.Dlopen(d.Path(), purego.RTLD_NOW)
	if err != nil {
		t.Fatal(err)
	}
	raw := &driver{API: a}
	purego.RegisterLibFunc(&raw.copyIn, handle, "cuMemcpyHtoD_v2")
	purego.RegisterLibFunc(&raw.fill, handle, "cuMemsetD8_v2")
	purego.RegisterLibFunc(&raw.stream, handle, "cuStreamCreate")
	purego.RegisterLibFunc(&raw.kernel, handle, "fakeLaunch")
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	check(t, a.Init())
	c, err := a.Retain(0)
	check(t, err, a.SetCurrent(c))
	return raw
}

func check(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		check(t, err)
		return v
	}
}

const bytesOf = 256

// see is the first byte of memory as work of a stream finds it.
func (d *driver) see(t *testing.T, p cuda.Pointer, s cuda.Stream) byte {
	t.Helper()
	got := make([]byte, bytesOf)
	check(t, d.ToHostAsync(got, p, s), d.SynchronizeStream(s))
	if !bytes.Equal(got, bytes.Repeat(got[:1], bytesOf)) {
		t.Fatalf("%v: in part", got)
	}
	return got[0]
}

// TestDefaultStreamIsLate: what looks done when the driver's function returns is not, for a stream that does not wait for the default
// one. Each of the ways to wait brings it.
func TestDefaultStreamIsLate(t *testing.T) {
	t.Setenv("FAKE_CUDA_LATE", "600000")
	d := open(t)
	sevens := bytes.Repeat([]byte{7}, bytesOf)
	works := map[string]func(p cuda.Pointer) int32{
		"a copy":   func(p cuda.Pointer) int32 { return d.copyIn(p, unsafe.Pointer(&sevens[0]), bytesOf) },
		"a fill":   func(p cuda.Pointer) int32 { return d.fill(p, 7, bytesOf) },
		"a stream": func(p cuda.Pointer) int32 { check(t, d.FillAsync(p, 7, bytesOf, 0)); return 0 },
	}
	var blocking cuda.Stream
	if r := d.stream(&blocking, 0); r != 0 {
		t.Fatal(r)
	}
	waits := map[string]func(p cuda.Pointer, s cuda.Stream) byte{
		"synchronize": func(p cuda.Pointer, s cuda.Stream) byte { check(t, d.SynchronizeStream(0)); return d.see(t, p, s) },
		"query": func(p cuda.Pointer, s cuda.Stream) byte {
			await.Until(t, "the default stream is done", func() bool { return must(d.StreamDone(0))(t) })
			return d.see(t, p, s)
		},
		"an event": func(p cuda.Pointer, s cuda.Stream) byte {
			e := must(d.NewEvent(false))(t)
			check(t, d.Record(e, 0), d.WaitEvent(s, e))
			return d.see(t, p, s)
		},
		"the default stream": func(p cuda.Pointer, _ cuda.Stream) byte { return d.see(t, p, 0) },
		"a blocking stream":  func(p cuda.Pointer, _ cuda.Stream) byte { return d.see(t, p, blocking) },
		"the device": func(p cuda.Pointer, s cuda.Stream) byte {
			check(t, d.Free(must(d.Alloc(1))(t)))
			return d.see(t, p, s)
		},
	}
	for work, begin := range works {
		for wait, see := range waits {
			s, p := must(d.NewStream())(t), must(d.Alloc(bytesOf))(t)
			check(t, d.Fill(p, 1, bytesOf))
			if r := begin(p); r != 0 {
				t.Fatalf("%s: %d", work, r)
			}
			if got := d.see(t, p, s); got != 1 {
				t.Errorf("%s of the default stream that nobody waits for: another stream finds %d, want what was there before", work, got)
			}
			if got := see(p, s); got != 7 {
				t.Errorf("%s, after %s: %d, want 7", work, wait, got)
			}
			check(t, d.Free(p), d.DestroyStream(s))
		}
	}
}

// TestLateIsNotNever: what nobody waits for is done all the same, and a copy from page-locked memory at once.
func TestLateIsNotNever(t *testing.T) {
	t.Setenv("FAKE_CUDA_LATE", "1")
	d := open(t)
	s, p := must(d.NewStream())(t), must(d.Alloc(bytesOf))(t)
	check(t, d.Fill(p, 1, bytesOf))
	d.fill(p, 7, bytesOf)
	await.Until(t, "the fill that nobody waits for is done", func() bool { return d.see(t, p, s) == 7 })

	t.Setenv("FAKE_CUDA_LATE", "600000")
	pinned := must(d.AllocHost(bytesOf))(t)
	copy(pinned, bytes.Repeat([]byte{9}, bytesOf))
	d.copyIn(p, unsafe.Pointer(&pinned[0]), bytesOf)
	if got := d.see(t, p, s); got != 9 {
		t.Errorf("a copy from page-locked memory left %d, want 9", got)
	}
}

// TestStreamsShareQueues: a kernel that waits keeps back what was given later to another stream of the same queue, once something of
// its own stream waits behind it; streams with queues of their own do not meet.
func TestStreamsShareQueues(t *testing.T) {
	for name, c := range map[string]struct {
		queues  string
		behind  bool // something waits behind the kernel on its stream
		reaches bool
	}{
		"one queue":                    {"1", true, false},
		"one queue and nothing behind": {"1", false, true},
		"two queues":                   {"2", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("CUDA_DEVICE_MAX_CONNECTIONS", c.queues)
			d := open(t)
			one, two, p := must(d.NewStream())(t), must(d.NewStream())(t), must(d.Alloc(bytesOf))(t)
			begun, gate := make(chan int, 1), make(chan int)
			waits := purego.NewCallback(func(uintptr) uintptr { begun <- 1; <-gate; return 0 })
			if r := d.kernel(one, waits, 0); r != 0 {
				t.Fatal(r)
			}
			await.Receive(t, "the kernel runs", begun)
			if c.behind {
				check(t, d.FillAsync(p, 1, 1, one))
			}
			check(t, d.FillAsync(p+1, 1, 1, two))
			if c.reaches {
				await.Until(t, "the second stream's work is done", func() bool { return must(d.StreamDone(two))(t) })
			} else if await.Poll(await.Lapse(50*time.Millisecond), func() bool { return must(d.StreamDone(two))(t) }) {
				t.Fatal("the second stream's work began before the first's")
			}
			close(gate)
			check(t, d.SynchronizeStream(two), d.SynchronizeStream(one))
		})
	}
}

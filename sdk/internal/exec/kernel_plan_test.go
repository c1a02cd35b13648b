package exec

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/sdk/internal/device"
	"github.com/weir-project/weir/sdk/kernel"
	"github.com/weir-project/weir/sdk/native/cuda"
	"github.com/weir-project/weir/sdk/native/dl"
	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/fakegpu"
	"github.com/weir-project/weir/tests/require"
)

var fakeOnce sync.Once

// fakeDevice is a device of the fake driver, which is built once: a process can have one driver only.
func fakeDevice(t *testing.T, index string) *device.Device {
	t.Helper()
	require.Tool(t, "cc")
	fakeOnce.Do(func() {
		t.Setenv("FAKE_CUDA_DEVICES", "4")
		dir, err := os.MkdirTemp("", "fakegpu")
		if err != nil {
			t.Fatal(err)
		}
		if err := fakegpu.Both(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := dl.Open(dir + "/libcuda.so.1"); err != nil {
			t.Fatal(err)
		}
		_ = os.RemoveAll(dir)
	})
	t.Setenv("FAKE_CUDA_DEVICES", "4")
	d, err := device.Open(index, 0)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// kernelTeam are the ranks of a group in this process, each with a device of its own if apart is set.
type kernelTeam struct {
	ranks   []*Kernel
	streams []cuda.Stream
	in, out []cuda.Pointer
}

const teamBytes = 4096

func newKernelTeam(t *testing.T, p *plan.Kernel, world int, apart bool) *kernelTeam {
	t.Helper()
	team, err := openKernelTeam(t, p, world, apart)
	if err != nil {
		t.Fatal(err)
	}
	return team
}

func openKernelTeam(t *testing.T, p *plan.Kernel, world int, apart bool) (*kernelTeam, error) {
	t.Helper()
	g := collective.HostGroup("g", world)
	devices := make([]*device.Device, world)
	for r := range world {
		devices[r] = fakeDevice(t, map[bool]string{true: fmt.Sprint(r), false: "0"}[apart])
		info := devices[r].Info
		g.Ranks[r].Device, g.Ranks[r].PID = &info, os.Getpid()
		for a := range r {
			g.Links[a][r] = topology.Link{}
		}
	}
	team := &kernelTeam{}
	offers := make([][]byte, world)
	for r, d := range devices {
		o := KernelOptions{Device: d, Group: g, Rank: r, Order: NewOrder(d), Deadline: await.For(2 * time.Second), Busy: func() bool { return false }}
		k, offer, _, err := OpenKernel(p, o)
		if err != nil {
			return nil, err
		}
		team.ranks, offers[r] = append(team.ranks, k), offer
	}
	for _, k := range team.ranks {
		if err := k.Connect(offers, make([]*os.File, world), await.For(time.Second)); err != nil {
			return nil, err
		}
		err := k.device.Do(func() error {
			s, err := k.device.API.NewStream()
			in, err2 := k.device.API.Alloc(teamBytes)
			out, err3 := k.device.API.Alloc(teamBytes)
			team.streams, team.in, team.out = append(team.streams, s), append(team.in, in), append(team.out, out)
			return errors.Join(err, err2, err3)
		})
		if err != nil {
			return nil, err
		}
	}
	t.Cleanup(func() {
		for _, k := range team.ranks {
			k.Abort()
		}
		for _, k := range team.ranks {
			await.Receive(t, "a plan ends", k.ended)
		}
	})
	return team, nil
}

var f32Sum = collective.Class{Memory: collective.CUDA, DataType: collective.Float32, Op: collective.Sum}

func (m *kernelTeam) call(r, n int) DeviceCall {
	return DeviceCall{Class: f32Sum, Dst: uintptr(m.out[r]), Src: uintptr(m.in[r]), Bytes: int64(4 * n), Stream: m.streams[r]}
}

// load puts rank+1 into every element of a rank's input.
func (m *kernelTeam) load(r int) error {
	k := m.ranks[r]
	values := make([]float32, teamBytes/4)
	for i := range values {
		values[i] = float32(r + 1)
	}
	return k.device.Do(func() error {
		return k.device.Write(m.in[r], unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), teamBytes))
	})
}

func (m *kernelTeam) wait(r int) error {
	k := m.ranks[r]
	return k.device.Do(func() error { return k.device.Wait(m.streams[r], await.By(5*time.Second), nil) })
}

// waits returns once a rank's kernel waits for a peer on the device.
func (m *kernelTeam) waits(t *testing.T, r int) {
	t.Helper()
	await.Until(t, fmt.Sprintf("the kernel of rank %d waits for a peer", r), func() bool {
		return uint32(atomic.LoadUint64(&m.ranks[r].watch.status.waiting)) != 0
	})
}

// result is what a rank's stream has left in an element of its output.
func (m *kernelTeam) result(t *testing.T, r, i int) float32 {
	t.Helper()
	if err := m.wait(r); err != nil {
		t.Fatalf("rank %d: %s", r, err)
	}
	return *(*float32)(unsafe.Add(*(*unsafe.Pointer)(unsafe.Pointer(&m.out[r])), 4*i)) // the fake device's memory is the process's
}

// run makes a call on every rank and checks the sums.
func (m *kernelTeam) run(t *testing.T, n int) {
	t.Helper()
	for r, k := range m.ranks {
		if err := m.load(r); err != nil {
			t.Fatal(err)
		}
		if captured, err := k.Run(m.call(r, n)); captured || err != nil {
			t.Fatalf("rank %d: captured %v, %v", r, captured, err)
		}
	}
	m.sums(t, n)
}

func (m *kernelTeam) sums(t *testing.T, n int) {
	t.Helper()
	world := len(m.ranks)
	for r, k := range m.ranks {
		if got, want := m.result(t, r, max(n-1, 0)), float32(world*(world+1)/2); n > 0 && got != want {
			t.Fatalf("rank %d of %d, %d elements: %v, want %v", r, world, n, got, want)
		}
		if err := k.Watch(time.Now()); err != nil {
			t.Fatalf("rank %d: %s", r, err)
		}
	}
}

func TestKernelPlan(t *testing.T) {
	p := fakegpu.Kernel(t)
	for _, world := range []int{1, 2, 4} {
		for _, apart := range []bool{false, true} {
			m := newKernelTeam(t, p, world, apart)
			for _, n := range []int{1, 0, 100, 0, 0, 1000, 3} { // a call without elements takes part, and does not disturb the sequence
				m.run(t, n)
			}
			if _, err := m.ranks[0].Run(DeviceCall{Class: f32Sum, Bytes: 1 << 30}); err == nil || !strings.Contains(err.Error(), "no row for float32") {
				t.Errorf("a call that no row serves: %v", err)
			}
		}
	}
}

// TestKernelOrder has eager calls on two streams in turns: one at a time, although the streams know nothing of each other.
func TestKernelOrder(t *testing.T) {
	m := newKernelTeam(t, fakegpu.Kernel(t), 2, false)
	other := make([]cuda.Stream, 2)
	for r, k := range m.ranks {
		if err := errors.Join(m.load(r), k.device.Do(func() (err error) { other[r], err = k.device.API.NewStream(); return err })); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 100 {
		for r, k := range m.ranks {
			c := m.call(r, 10)
			if i%3 > 0 {
				c.Stream = other[r]
			}
			if _, err := k.Run(c); err != nil {
				t.Fatal(err)
			}
		}
	}
	for r, k := range m.ranks {
		if err := k.device.Do(func() error { return k.device.Wait(other[r], await.By(5*time.Second), nil) }); err != nil {
			t.Fatal(err)
		}
	}
	m.sums(t, 10)
}

// graphOf captures f of one rank on its stream.
func (m *kernelTeam) graphOf(t *testing.T, r int, f func() error) cuda.GraphExec {
	t.Helper()
	var x cuda.GraphExec
	k := m.ranks[r]
	err := k.device.Do(func() error {
		if err := k.device.API.BeginCapture(m.streams[r], cuda.CaptureThreadLocal); err != nil {
			return err
		}
		err := f()
		g, e := k.device.API.EndCapture(m.streams[r])
		if err = errors.Join(err, e); err != nil {
			return err
		}
		if x, err = k.device.API.Instantiate(g); err != nil {
			return err
		}
		return k.device.API.DestroyGraph(g)
	})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func (m *kernelTeam) launch(t *testing.T, r int, x cuda.GraphExec, s cuda.Stream) {
	t.Helper()
	k := m.ranks[r]
	if err := k.device.Do(func() error { return k.device.API.Launch(x, s) }); err != nil {
		t.Fatal(err)
	}
}

func (m *kernelTeam) destroy(t *testing.T, r int, x cuda.GraphExec) {
	t.Helper()
	k := m.ranks[r]
	if err := k.device.Do(func() error { return k.device.API.DestroyExec(x) }); err != nil {
		t.Fatal(err)
	}
}

// TestKernelGraph captures calls on two streams of one capture, which come one after the other all the same, and replays
// them between eager calls. The plan lives as long as the graph.
func TestKernelGraph(t *testing.T) {
	m := newKernelTeam(t, fakegpu.Kernel(t), 2, true)
	graphs := make([]cuda.GraphExec, 2)
	for r, k := range m.ranks {
		api := k.device.API
		graphs[r] = m.graphOf(t, r, func() error {
			if captured, err := k.Run(m.call(r, 10)); !captured || err != nil {
				return fmt.Errorf("captured %v: %w", captured, err)
			}
			side, err := api.NewStream()
			if err != nil {
				return err
			}
			fork, err := api.NewEvent(false)
			if err != nil {
				return err
			}
			join, err := api.NewEvent(false)
			if err != nil {
				return err
			}
			// A branch that begins before the first call, so that nothing but the plan orders the two.
			if err := errors.Join(api.Record(fork, m.streams[r]), api.WaitEvent(side, fork)); err != nil {
				return err
			}
			c := m.call(r, 20)
			for i := range 10 {
				if c.Stream = m.streams[r]; i%2 == 0 {
					c.Stream = side
				}
				if err := k.RunCaptured(c); err != nil {
					return err
				}
			}
			return errors.Join(api.Record(join, side), api.WaitEvent(m.streams[r], join))
		})
	}
	for i := range 5 {
		m.run(t, 100+i)
		for r := range m.ranks {
			m.launch(t, r, graphs[r], m.streams[r])
		}
		m.sums(t, 20)
	}
	for r, k := range m.ranks {
		if err := k.Close(await.For(time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := k.Run(m.call(r, 1)); !errors.Is(err, ErrOver) {
			t.Errorf("a call after Close: %v", err)
		}
		m.launch(t, r, graphs[r], m.streams[r])
	}
	m.sums(t, 20)
	for r, k := range m.ranks {
		select {
		case <-k.ended:
			t.Error("the plan ended before its graph")
		default:
		}
		m.destroy(t, r, graphs[r])
		await.Receive(t, "the plan ends with its graph", k.ended)
	}
}

// TestKernelInFlight has the ranks launch a graph and an eager call on two streams in opposite orders: a fault, no hang.
func TestKernelInFlight(t *testing.T) {
	m := newKernelTeam(t, fakegpu.Kernel(t), 2, false)
	var graphs []cuda.GraphExec
	var other []cuda.Stream
	for r, k := range m.ranks {
		graphs = append(graphs, m.graphOf(t, r, func() error { return k.RunCaptured(m.call(r, 20)) }))
		if err := k.device.Do(func() error { s, err := k.device.API.NewStream(); other = append(other, s); return err }); err != nil {
			t.Fatal(err)
		}
	}
	eager := func(r int) {
		if _, err := m.ranks[r].Run(m.call(r, 10)); err != nil {
			t.Fatal(err)
		}
	}
	eager(0)
	m.waits(t, 0)
	m.launch(t, 0, graphs[0], other[0])
	await.Until(t, "rank 0 notices", func() bool {
		err := m.ranks[0].Watch(time.Now())
		return err != nil && strings.Contains(err.Error(), "IN_FLIGHT: another call or graph of this group was still running")
	})
	m.launch(t, 1, graphs[1], other[1])
	eager(1)
	for r, k := range m.ranks { // as the group does for all ranks
		k.Abort()
		if err := m.wait(r); err != nil {
			t.Error(err)
		}
		m.destroy(t, r, graphs[r])
	}
}

// TestKernelAbort sets the abort word while a peer is missing, eager and in a replay: the call ends with NaN, later ones fail.
func TestKernelAbort(t *testing.T) {
	p := fakegpu.Kernel(t)
	for _, replay := range []bool{false, true} {
		m := newKernelTeam(t, p, 2, false)
		m.run(t, 10)
		k := m.ranks[0]
		if replay {
			x := m.graphOf(t, 0, func() error { return k.RunCaptured(m.call(0, 10)) })
			defer m.destroy(t, 0, x)
			m.launch(t, 0, x, m.streams[0])
		} else if _, err := k.Run(m.call(0, 10)); err != nil {
			t.Fatal(err)
		}
		m.waits(t, 0)
		k.Abort()
		if got := m.result(t, 0, 9); !math.IsNaN(float64(got)) {
			t.Errorf("replay %v: %v, want NaN", replay, got)
		}
		if _, err := k.Run(m.call(0, 10)); !errors.Is(err, ErrOver) {
			t.Errorf("a call after the abort: %v", err)
		}
	}
}

// TestKernelStuck has a peer that does not come to a replay, which no board shows.
func TestKernelStuck(t *testing.T) {
	m := newKernelTeam(t, fakegpu.Kernel(t), 2, false)
	m.ranks[0].patient = await.Lapse(200 * time.Millisecond)
	if _, err := m.ranks[0].Run(m.call(0, 10)); err != nil {
		t.Fatal(err)
	}
	var err error
	await.Until(t, "the kernel is seen to be stuck", func() bool { err = m.ranks[0].Watch(time.Now()); return err != nil })
	if err == nil || !strings.Contains(err.Error(), "waited for rank 1 on the device for 200ms") {
		t.Errorf("error %v", err)
	}
}

// TestKernelSelfTestGraphs has ranks of one process on one device try more graphs than the driver has room for at once. When it
// needs room it waits for the device, and so for the ranks that wait for the one that asked.
func TestKernelSelfTestGraphs(t *testing.T) {
	m := newKernelTeam(t, fakegpu.Kernel(t), 4, false)
	class := f32Sum
	class.Captured = true
	errs := make([]error, len(m.ranks))
	var wg sync.WaitGroup
	for r, k := range m.ranks {
		wg.Go(func() {
			errs[r] = k.SelfTest(class, []backend.Range{{Min: 4, Max: 8000, Multiple: 4}}, await.For(5*time.Second), func() error { return nil })
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// TestKernelSelfTest runs the self-test and what makes it fail.
func TestKernelSelfTest(t *testing.T) {
	for name, c := range map[string]struct {
		flags []string
		words string
	}{
		"right":         {nil, ""},
		"wrong":         {[]string{"-DWRONG=1"}, "rank 1 of 2, float32 sum, 4 bytes out of place: element 0 is"},
		"hasty":         {[]string{"-DHASTY"}, "element 0 is"},
		"other version": {[]string{"-DOTHER_VERSION"}, "VERSION: the kernel was built for another version of weir_kernel.h"},
		"too small":     {[]string{"-DNAMED_BYTES=64"}, "more elements than the plan's buffer or grid is made for"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newKernelTeam(t, fakegpu.Kernel(t, c.flags...), 2, false)
			errs := make([]error, 2)
			var wg sync.WaitGroup
			for r, k := range m.ranks {
				wg.Go(func() {
					errs[r] = k.SelfTest(f32Sum, []backend.Range{{Min: 4, Max: 8000, Multiple: 4}}, await.For(5*time.Second), func() error { return nil })
				})
			}
			wg.Wait()
			err := errors.Join(errs...)
			if (err == nil) != (c.words == "") || err != nil && !strings.Contains(err.Error(), c.words) {
				t.Errorf("error %v, want %q", err, c.words)
			}
		})
	}
}

// TestKernelAbortTest finds kernels that do not leave, or do not wait.
func TestKernelAbortTest(t *testing.T) {
	for name, c := range map[string]struct{ flag, words string }{
		"right": {"-DRIGHT", ""},
		"deaf":  {"-DDEAF", "did not end within 1s after the abort word was set, while rank 1 had not made it"},
		"hasty": {"-DHASTY", "ended though rank 1 had not made it"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newKernelTeam(t, fakegpu.Kernel(t, c.flag), 2, false)
			err := m.ranks[0].AbortTest(f32Sum, []backend.Range{{Min: 4, Max: 400, Multiple: 4}})
			if (err == nil) != (c.words == "") || err != nil && !strings.Contains(err.Error(), c.words) {
				t.Errorf("error %v, want %q", err, c.words)
			}
			if name == "deaf" { // let it go, so that the test ends
				m.ranks[1].over.Store(false)
				_, _ = m.ranks[1].Run(m.call(1, 100))
			}
		})
	}
}

// TestKernelRefused are plans that a rank does not take.
func TestKernelRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p *plan.Kernel)
		code   backend.Code
		words  string
	}{
		"function":  {func(p *plan.Kernel) { p.Launches[1].Function = "nothing" }, backend.SymbolMissing, "the image has no function nothing"},
		"driver":    {func(p *plan.Kernel) { p.MinDriver = "13.1" }, backend.Version, "the driver serves CUDA 13.0, the kernels need 13.1 or newer"},
		"image":     {func(p *plan.Kernel) { p.Image = p.Image[:100] }, backend.PlanRejected, "the image"},
		"residency": {func(p *plan.Kernel) { p.Launches[0].Grid = 65 }, backend.InitFailed, "65 blocks of 32 threads for each of 2 ranks on one GPU, which runs 128 such blocks at once"},
		"memory":    {func(p *plan.Kernel) { p.BufferBytes = 1 << 40 }, backend.InitFailed, "CUDA_ERROR_OUT_OF_MEMORY"},
		"host":      {func(p *plan.Kernel) { p.Buffer = plan.HostBuffer }, backend.InitFailed, "the agent sent no memory"},
	} {
		t.Run(name, func(t *testing.T) {
			p := fakegpu.Kernel(t)
			if name == "image" {
				p.Image = append([]byte(nil), p.Image...)
			}
			c.change(p)
			if name == "image" { // not what it says it is
				p.Image = append(p.Image[:20], make([]byte, 100)...)
			}
			_, err := openKernelTeam(t, p, 2, false)
			var f *backend.Fault
			if !errors.As(err, &f) || f.Code != c.code || !strings.Contains(err.Error(), c.words) {
				t.Errorf("error %v, want %s with %q", err, c.code, c.words)
			}
		})
	}
}

// TestKernelGone has a rank leave whose buffer a peer's kernel then writes to: it must be there still.
func TestKernelGone(t *testing.T) {
	m := newKernelTeam(t, fakegpu.Kernel(t), 2, false)
	m.run(t, 10)
	if err := m.ranks[1].Close(await.For(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := m.ranks[0].Run(m.call(0, 10)); err != nil { // the process would not survive a hole in the memory
		t.Fatal(err)
	}
	m.waits(t, 0)
	m.ranks[0].Abort()
	if err := m.wait(0); err != nil {
		t.Fatal(err)
	}
	<-m.ranks[0].ended
	lent.mu.Lock()
	defer lent.mu.Unlock()
	for p, b := range lent.all {
		t.Errorf("buffer %#x is still lent to %d", p, b.users)
	}
}

// TestKernelLayout compares what kernels are given with what the C header says.
func TestKernelLayout(t *testing.T) {
	var c kernelCall
	fields := []struct {
		name string
		at   uintptr
	}{
		{"version", unsafe.Offsetof(c.version)},
		{"rank", unsafe.Offsetof(c.rank)},
		{"world", unsafe.Offsetof(c.world)},
		{"hash", unsafe.Offsetof(c.hash)},
		{"id", unsafe.Offsetof(c.id)},
		{"count", unsafe.Offsetof(c.count)},
		{"in", unsafe.Offsetof(c.in)},
		{"out", unsafe.Offsetof(c.out)},
		{"control", unsafe.Offsetof(c.control)},
		{"status", unsafe.Offsetof(c.status)},
		{"buffer_bytes", unsafe.Offsetof(c.bufferBytes)},
		{"buffers", unsafe.Offsetof(c.buffers)},
	}
	source := "#include <stddef.h>\n" + string(kernel.Header) + "const unsigned layout[] = {"
	var want []uint32
	for _, f := range fields {
		source += fmt.Sprintf("offsetof(weir_call, %s), ", f.name)
		want = append(want, uint32(f.at))
	}
	source += "sizeof(weir_call), offsetof(weir_status, abort), offsetof(weir_status, fault), offsetof(weir_status, waiting), sizeof(weir_status), sizeof(weir_control), WEIR_MAX_RANKS, WEIR_KERNEL_VERSION, WEIR_FAULT_VERSION, WEIR_FAULT_IN_FLIGHT, WEIR_FAULT_SIZE};\n"
	var s kernelStatus
	want = append(want, uint32(unsafe.Offsetof(c.table)), uint32(unsafe.Offsetof(s.abort)), uint32(unsafe.Offsetof(s.fault)), uint32(unsafe.Offsetof(s.waiting)),
		statusBytes, controlBytes, plan.MaxKernelRanks, headerVersion, faultVersion, faultInFlight, faultSize)
	if unsafe.Sizeof(s) != statusBytes {
		t.Errorf("status of %d bytes", unsafe.Sizeof(s))
	}
	lib, err := dl.Open(require.Library(t, "liblayout.so", source))
	if err != nil {
		t.Fatal(err)
	}
	at, err := lib.Symbol("layout")
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range unsafe.Slice((*uint32)(*(*unsafe.Pointer)(unsafe.Pointer(&at))), len(want)) {
		if got != want[i] {
			t.Errorf("number %d is %d in C and %d in Go", i, got, want[i])
		}
	}
}

// TestKernelHash holds that ranks agree on a call whether or not it is captured, and seldom on different ones.
func TestKernelHash(t *testing.T) {
	captured := f32Sum
	captured.Captured = true
	seen := map[uint32]int{}
	for bytes := range int64(4095) {
		h := callHash(f32Sum, 4*bytes)
		if h < 1 || h > maxHash || h != callHash(captured, 4*bytes) {
			t.Fatalf("%d bytes: hash %d", 4*bytes, h)
		}
		seen[h]++
	}
	for h, n := range seen {
		if n > 12 {
			t.Errorf("hash %d of %d sizes among 4095", h, n)
		}
	}
}

// TestKernelAllocates holds that a call leaves no garbage, whether or not the stream changes.
func TestKernelAllocates(t *testing.T) {
	m := newKernelTeam(t, fakegpu.Kernel(t), 1, false)
	c := m.call(0, 1)
	for _, streams := range [][2]cuda.Stream{{c.Stream, c.Stream}, {c.Stream, 0}} {
		i := 0
		if n := testing.AllocsPerRun(200, func() {
			i++
			c.Stream = streams[i%2]
			if _, err := m.ranks[0].Run(c); err != nil {
				t.Error(err)
			}
		}); n != 0 {
			t.Errorf("%v allocations a call", n)
		}
	}
	if err := m.wait(0); err != nil {
		t.Fatal(err)
	}
}

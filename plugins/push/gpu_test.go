package main

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/kernel/ptx"
	"github.com/weir-project/weir/sdk/native/cuda"
	"github.com/weir-project/weir/tests/require"
)

// envKernels names a folder with the PTX of the tests, for machines without the compiler, and perhaps with other builds of
// the plugin's kernels.
const envKernels = "WEIR_PUSH_KERNELS"

// gpu is a GPU in use by a test, whose goroutine is locked to its thread.
type gpu struct {
	*cuda.API
	t        testing.TB
	launcher *cuda.Launcher
	main     cuda.Stream
	modules  map[string]cuda.Module
}

func openGPU(t testing.TB) *gpu {
	t.Helper()
	driver, err := cuda.Open()
	if err != nil {
		require.Missing(t, "gpu", err.Error())
	}
	a, err := driver.Bind()
	if err == nil {
		err = a.Init()
	}
	if err != nil {
		require.Missing(t, "gpu", err.Error())
	}
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	g := &gpu{API: a, t: t, launcher: a.NewLauncher(), modules: map[string]cuda.Module{}}
	c := must(a.Retain(0))(t)
	g.check(a.SetCurrent(c))
	g.main = must(a.NewStream())(t)
	return g
}

// must is the value of a call that may fail.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func (g *gpu) check(errs ...error) {
	g.t.Helper()
	for _, err := range errs {
		if err != nil {
			g.t.Fatal(err)
		}
	}
}

// alloc is device memory of the test, zeroed.
func (g *gpu) alloc(bytes int64) cuda.Pointer {
	g.t.Helper()
	p := must(g.Alloc(bytes))(g.t)
	g.check(g.Fill(p, 0, bytes))
	g.t.Cleanup(func() { _ = g.Free(p) })
	return p
}

// allocHost is page-locked memory of the test, zeroed, and where the GPU sees it.
func (g *gpu) allocHost(bytes int64) ([]byte, cuda.Pointer) {
	g.t.Helper()
	m := must(g.AllocHost(bytes))(g.t)
	clear(m)
	g.t.Cleanup(func() { _ = g.FreeHost(m) })
	return m, must(g.HostPointer(m))(g.t)
}

// image is a kernel source of the plugin or of testdata as PTX, with a macro defined if there is one.
func image(t testing.TB, source, define string) []byte {
	t.Helper()
	name := strings.TrimSuffix(filepath.Base(source), ".cu")
	if define != "" {
		name += "." + define
	}
	if folder := os.Getenv(envKernels); folder != "" {
		if text, err := os.ReadFile(filepath.Join(folder, name+".ptx")); err == nil {
			return text
		}
	}
	if define == "" {
		if text, err := images.ReadFile("kernels/" + name + ".ptx"); err == nil {
			return text
		}
	}
	require.Tool(t, ptx.Compiler)
	var defines []string
	if define != "" {
		defines = []string{define}
	}
	return must(ptx.Build(t.Context(), source, defines...))(t)
}

// function is a kernel by its source's name, its own, and a macro.
func (g *gpu) function(source, define, name string) cuda.Function {
	g.t.Helper()
	m, loaded := g.modules[source+define]
	if !loaded {
		m = must(g.LoadModule(image(g.t, source, define)))(g.t)
		g.modules[source+define] = m
		g.t.Cleanup(func() { _ = g.UnloadModule(m) })
	}
	return must(g.Function(m, name))(g.t)
}

// call is weir_call.
type call struct {
	version, rank, world, hash, id, _ uint32
	count                             uint64
	in, out, control, status          cuda.Pointer
	bufferBytes                       uint64
	buffers                           [16]cuda.Pointer
}

// launch starts a kernel whose one argument is a struct.
func launch[T any](g *gpu, f cuda.Function, grid, block int, s cuda.Stream, argument T) {
	g.t.Helper()
	a := &argument
	p := new(unsafe.Pointer)
	*p = unsafe.Pointer(a)
	g.check(g.launcher.Launch(f, grid, block, 0, s, p))
	runtime.KeepAlive(a)
}

// rank is a virtual rank: all of a team are on one GPU, each with a stream of its own.
type rank struct {
	rank            int
	stream          cuda.Stream
	done            cuda.Event
	buffer, control cuda.Pointer
	status          []byte // the host's view
	statusAt        cuda.Pointer
}

func (r *rank) abort() { binary.NativeEndian.PutUint32(r.status, 1) }

func (r *rank) fault() uint32 { return binary.NativeEndian.Uint32(r.status[4:]) }

func (r *rank) waiting() uint64 { return binary.NativeEndian.Uint64(r.status[8:]) }

// team is virtual ranks whose buffers are where the plan says.
type team struct {
	*gpu
	ranks       []*rank
	bufferBytes int64
	begin       cuda.Event
	lastID      uint32
}

func newTeam(g *gpu, world int, bufferBytes int64, host bool) *team {
	g.t.Helper()
	t := &team{gpu: g, bufferBytes: bufferBytes, begin: must(g.NewEvent(false))(g.t)}
	for i := range world {
		r := &rank{rank: i, stream: must(g.NewStream())(g.t), done: must(g.NewEvent(false))(g.t), control: g.alloc(128)}
		r.status, r.statusAt = g.allocHost(128)
		if host {
			_, r.buffer = g.allocHost(bufferBytes)
		} else {
			r.buffer = g.alloc(bufferBytes)
		}
		t.ranks = append(t.ranks, r)
	}
	return t
}

// call is a rank's argument block with an id of its own.
func (t *team) call(r *rank, dt collective.DataType, count int64, in, out cuda.Pointer) call {
	t.lastID++
	c := call{
		version: 1, rank: uint32(r.rank), world: uint32(len(t.ranks)), id: t.lastID, count: uint64(count), in: in, out: out,
		control: r.control, status: r.statusAt, bufferBytes: uint64(t.bufferBytes),
		hash: 1 + uint32((uint64(count)*uint64(dt.Size())*31+uint64(dt))%4095),
	}
	for i, peer := range t.ranks {
		c.buffers[i] = peer.buffer
	}
	return c
}

// preset sets every rank's sequence.
func (t *team) preset(sequence uint32) {
	t.t.Helper()
	for _, r := range t.ranks {
		t.check(t.ToDevice(r.control, binary.NativeEndian.AppendUint32(nil, sequence)))
	}
}

// sequence is that of a rank's call to come.
func (t *team) sequence(r *rank) uint32 {
	t.t.Helper()
	b := make([]byte, 4)
	t.check(t.ToHost(b, r.control))
	return binary.NativeEndian.Uint32(b)
}

// capture records what f does on each rank's stream as a graph with a branch for each rank, and then what after does.
func (t *team) capture(f func(*rank), after func(cuda.Stream)) cuda.GraphExec {
	t.t.Helper()
	t.check(t.BeginCapture(t.main, cuda.CaptureRelaxed), t.Record(t.begin, t.main))
	for _, r := range t.ranks {
		t.check(t.WaitEvent(r.stream, t.begin))
		f(r)
		t.check(t.Record(r.done, r.stream), t.WaitEvent(t.main, r.done))
	}
	if after != nil {
		after(t.main)
	}
	graph := must(t.EndCapture(t.main))(t.t)
	x := must(t.Instantiate(graph))(t.t)
	t.check(t.DestroyGraph(graph))
	t.t.Cleanup(func() { _ = t.DestroyExec(x) })
	return x
}

// fitsAtOnce fails the test unless the blocks of all ranks can run at the same time, without which virtual ranks wait for
// ever.
func (t *team) fitsAtOnce(f cuda.Function, grid, block int) bool {
	t.t.Helper()
	each := must(t.Occupancy(f, block, 0))(t.t)
	return grid*len(t.ranks) <= each*must(t.Multiprocessors(0))(t.t)
}

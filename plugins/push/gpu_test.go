package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
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

// envDevices is how many GPUs the ranks of a team are spread over; one if it is not set. Their links must have been seen to
// work (nvidia-smi topo -p2p rw).
const envDevices = "WEIR_PUSH_DEVICES"

// gpu is the GPUs in use by a test, whose goroutine is locked to its thread. One at a time is current.
type gpu struct {
	*cuda.API
	t        testing.TB
	launcher *cuda.Launcher
	main     cuda.Stream // of the first
	modules  map[loaded]cuda.Module
	contexts []cuda.Context
	current  int
}

type loaded struct {
	source source
	device int
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
	g := &gpu{API: a, t: t, launcher: a.NewLauncher(), modules: map[loaded]cuda.Module{}}
	devices := 1
	if many := os.Getenv(envDevices); many != "" {
		devices = must(strconv.Atoi(many))(t)
	}
	for i := range devices {
		g.contexts = append(g.contexts, must(a.Retain(i))(t))
	}
	for i := range devices {
		for j, peer := range g.contexts {
			if g.on(i); i != j {
				g.check(a.EnablePeer(peer))
			}
		}
	}
	g.on(0)
	g.main = must(a.NewStream())(t)
	return g
}

// on makes a GPU the current one.
func (g *gpu) on(device int) {
	g.t.Helper()
	g.current = device
	g.check(g.SetCurrent(g.contexts[device]))
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

// source is a file of kernels and the macros to compile it with.
type source struct {
	file    string
	world   int    // of PUSH_WORLD; below 0: not defined
	variant string // another macro, if any
}

// image is the PTX of a source.
func image(t testing.TB, s source) []byte {
	t.Helper()
	name := strings.TrimSuffix(filepath.Base(s.file), ".cu")
	var defines []string
	if s.world >= 0 {
		name += fmt.Sprintf(".%d", s.world)
		defines = append(defines, fmt.Sprintf("PUSH_WORLD=%d", s.world))
	}
	if s.variant != "" {
		name += "." + s.variant
		defines = append(defines, s.variant)
	}
	if folder := os.Getenv(envKernels); folder != "" {
		if text, err := os.ReadFile(filepath.Join(folder, name+".ptx")); err == nil {
			return text
		}
	}
	if s.variant == "" {
		if text, err := images.ReadFile("kernels/" + name + ".ptx"); err == nil {
			return text
		}
	}
	require.Tool(t, ptx.Compiler)
	return must(ptx.Build(t.Context(), s.file, defines...))(t)
}

// checks are the tests' own kernels.
func checks() source { return source{"testdata/check.cu", -1, ""} }

// function is a kernel of a source.
func (g *gpu) function(s source, name string) cuda.Function {
	g.t.Helper()
	key := loaded{s, g.current}
	m, found := g.modules[key]
	if !found {
		m = must(g.LoadModule(image(g.t, s)))(g.t)
		g.modules[key] = m
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

// rank is a virtual rank: all of a team are in one process, each with a stream of its own, and usually on one GPU.
type rank struct {
	rank, device    int
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
		device := i % len(g.contexts)
		g.on(device)
		r := &rank{rank: i, device: device, stream: must(g.NewStream())(g.t), done: must(g.NewEvent(false))(g.t), control: g.alloc(128)}
		r.status, r.statusAt = g.allocHost(128)
		if host {
			_, r.buffer = g.allocHost(bufferBytes)
		} else {
			r.buffer = g.alloc(bufferBytes)
		}
		t.ranks = append(t.ranks, r)
	}
	g.on(0)
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

func nothing() {}

// capture records as a graph what before does on the main stream, then in a branch for each rank what f does on the rank's, then
// what after does on the main stream.
func (t *team) capture(before func(), f func(*rank), after func()) cuda.GraphExec {
	t.t.Helper()
	t.check(t.BeginCapture(t.main, cuda.CaptureRelaxed))
	before()
	t.check(t.Record(t.begin, t.main))
	for _, r := range t.ranks {
		t.on(r.device)
		t.check(t.WaitEvent(r.stream, t.begin))
		f(r)
		t.check(t.Record(r.done, r.stream))
		t.on(0)
		t.check(t.WaitEvent(t.main, r.done))
	}
	after()
	graph := must(t.EndCapture(t.main))(t.t)
	x := must(t.Instantiate(graph))(t.t)
	t.check(t.DestroyGraph(graph))
	t.t.Cleanup(func() { _ = t.DestroyExec(x) })
	return x
}

// fitsAtOnce says whether the blocks of all ranks of a GPU can run at the same time, without which virtual ranks wait for ever.
func (t *team) fitsAtOnce(f cuda.Function, grid, block int) bool {
	t.t.Helper()
	each := must(t.Occupancy(f, block, 0))(t.t)
	here := int(ceil(int64(len(t.ranks)), int64(len(t.contexts))))
	return grid*here <= each*must(t.Multiprocessors(0))(t.t)
}

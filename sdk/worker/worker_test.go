package worker_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/internal/exec"
	"github.com/weir-project/weir/sdk/proto/workerv1"
	"github.com/weir-project/weir/sdk/worker"
	"github.com/weir-project/weir/tests/await"
)

// served is a group of ranks in this process with a worker that is attached over a socket, as a plugin's is.
type served struct {
	ranks  []*exec.Worker
	memory *workerv1.Memory // the agent's
	socket *net.UnixConn    // the agent's end
	done   chan error       // what Serve returned
	abort  uint32
}

func serve(t *testing.T, s workerv1.Shape, do func(*worker.Tile) error) *served {
	t.Helper()
	files, memory, err := workerv1.Create(s)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	g := &served{memory: memory, done: make(chan error, 1)}
	for rank := range s.World {
		m, err := workerv1.Map(files.Control, files.Inputs)
		if err != nil {
			t.Fatal(err)
		}
		g.ranks = append(g.ranks, exec.NewWorker(m, rank, exec.Watch{Abort: &g.abort, Deadline: await.For(await.Plenty), Yield: true}))
	}
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		w, err := worker.Attach(t.Context(), path)
		if err == nil {
			err = w.Serve(do)
		}
		g.done <- err
	}()
	if g.socket, err = l.AcceptUnix(); err != nil {
		t.Fatal(err)
	}
	if err := workerv1.Offer(g.socket, files.Control, files.ReadOK, await.By(await.Plenty)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.socket.Close() })
	return g
}

// call has every rank make one call, late by a random time, and returns what each got. rank 0's error is each one's.
func (g *served) call(t *testing.T, bytes int, number uint64, in []byte, inPlace bool) ([][]byte, []error) {
	t.Helper()
	out, errs := make([][]byte, len(g.ranks)), make([]error, len(g.ranks))
	var wg sync.WaitGroup
	for rank, w := range g.ranks {
		wg.Go(func() {
			src := make([]byte, bytes)
			for i := range src {
				src[i] = in[i] + byte(rank)
			}
			out[rank] = make([]byte, bytes)
			if inPlace {
				out[rank] = src
			}
			time.Sleep(time.Duration(rand.IntN(200)) * time.Microsecond)
			errs[rank] = w.Run(exec.Call{
				Class: collective.Class{DataType: collective.Uint8, Op: collective.Sum}, Number: number, Bytes: int64(bytes),
				Dst: unsafe.Pointer(unsafe.SliceData(out[rank])), Src: unsafe.Pointer(unsafe.SliceData(src)),
			})
		})
	}
	wg.Wait()
	return out, errs
}

func random(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

// right compares the bytes from and to of a result with the sum over the ranks.
func right(in, out []byte, world, from, to int) error {
	for i := from; i < to; i++ {
		if want := byte(world)*in[i] + byte(world*(world-1)/2); out[i] != want {
			return fmt.Errorf("byte %d is %d, want %d", i, out[i], want)
		}
	}
	return nil
}

func TestServesEverySize(t *testing.T) {
	for _, s := range []workerv1.Shape{{World: 1, Slots: 1, SlotBytes: 64}, {World: 2, Slots: 2, SlotBytes: 64}, {World: 3, Slots: 3, SlotBytes: 128}, {World: 5, Slots: 8, SlotBytes: 64}} {
		t.Run(fmt.Sprintf("%+v", s), func(t *testing.T) {
			g := serve(t, s, worker.Reduce)
			number := uint64(0)
			for _, bytes := range []int{1, 63, 64, 65, 64 * s.Slots, 64*s.Slots + 1, 1000, 5000, 1} {
				for _, inPlace := range []bool{false, true} {
					number++
					in := random(bytes)
					out, errs := g.call(t, bytes, number, in, inPlace)
					for rank := range g.ranks {
						if err := errors.Join(errs[rank], right(in, out[rank], s.World, 0, bytes)); err != nil {
							t.Fatalf("%d bytes, rank %d: %v", bytes, rank, err)
						}
					}
				}
			}
			g.memory.Stop()
			if err := <-g.done; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWorkerEndsInACall: the parts that were done are right and stay, the others are reported, the same on every rank, and
// their outputs untouched; every later call reports all of itself.
func TestWorkerEndsInACall(t *testing.T) {
	for after := range 9 {
		var tiles atomic.Int64
		failure := errors.New("out of luck")
		s := workerv1.Shape{World: 3, Slots: 4, SlotBytes: 64}
		g := serve(t, s, func(tile *worker.Tile) error {
			if tiles.Add(1) > int64(after) {
				return failure
			}
			return worker.Reduce(tile)
		})
		gone := make(chan struct{})
		go func() { // as the agent does
			workerv1.Ended(g.socket)
			g.memory.GiveUp()
			close(gone)
		}()
		const bytes = 8*64 + 5 // nine tiles
		in := random(bytes)
		out, errs := g.call(t, bytes, 1, in, after%2 == 0)
		<-gone
		if err := <-g.done; !errors.Is(err, failure) {
			t.Fatalf("Serve returned %v", err)
		}
		for rank := range g.ranks {
			var lost *exec.WorkerLost
			if !errors.As(errs[rank], &lost) || len(lost.Parts) != 1 || lost.Parts[0].Offset != int64(64*after) || lost.Parts[0].Bytes != bytes-int64(64*after) {
				t.Fatalf("after %d tiles, rank %d: %v", after, rank, errs[rank])
			}
			if err := right(in, out[rank], s.World, 0, 64*after); err != nil {
				t.Errorf("after %d tiles, rank %d: %v", after, rank, err)
			}
			for i := 64 * after; i < bytes; i++ {
				if untouched := map[bool]byte{true: in[i] + byte(rank)}[after%2 == 0]; out[rank][i] != untouched {
					t.Fatalf("after %d tiles, rank %d: byte %d was written", after, rank, i)
				}
			}
		}
		_, errs = g.call(t, 10, 2, in, false)
		for _, err := range errs {
			if lost := (*exec.WorkerLost)(nil); !errors.As(err, &lost) || lost.Parts[0] != (exec.Part{Offset: 0, Bytes: 10}) {
				t.Errorf("a later call: %v", err)
			}
		}
	}
}

// TestRanksDisagree: the worker does not touch a tile of which ranks say different things, and they find out.
func TestRanksDisagree(t *testing.T) {
	g := serve(t, workerv1.Shape{World: 2, Slots: 2, SlotBytes: 64}, func(tile *worker.Tile) error {
		t.Errorf("asked to reduce all-reduce %d", tile.Call)
		return nil
	})
	var wg sync.WaitGroup
	for rank, w := range g.ranks {
		wg.Go(func() {
			buf := make([]byte, 64)
			err := w.Run(exec.Call{
				Class: collective.Class{DataType: collective.Uint8, Op: collective.Sum}, Number: 1, Bytes: int64(8 + rank),
				Dst: unsafe.Pointer(&buf[0]), Src: unsafe.Pointer(&buf[0]),
			})
			if mismatch := (*exec.Mismatch)(nil); !errors.As(err, &mismatch) || mismatch.Rank != 1-rank {
				t.Errorf("rank %d: %v", rank, err)
			}
		})
	}
	wg.Wait()
}

// TestHungWorkerIsReported: once all ranks are there, each rank says that the worker is overdue; a missing rank is not the
// worker's fault.
func TestHungWorkerIsReported(t *testing.T) {
	release := make(chan struct{})
	g := serve(t, workerv1.Shape{World: 2, Slots: 1, SlotBytes: 64}, func(*worker.Tile) error { <-release; return nil })
	defer close(release)
	var overdue atomic.Int64
	var once sync.Once
	for _, w := range g.ranks {
		w.Patience = await.Lapse(20 * time.Millisecond)
		w.Overdue = func() { overdue.Add(1); once.Do(g.memory.GiveUp) }
	}
	_, errs := g.call(t, 64, 1, random(64), false)
	for rank, err := range errs {
		if lost := (*exec.WorkerLost)(nil); !errors.As(err, &lost) {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
	if n := overdue.Load(); n < 1 || n > 2 {
		t.Errorf("reported %d times", n)
	}
}

func TestLateRankIsNamed(t *testing.T) {
	g := serve(t, workerv1.Shape{World: 2, Slots: 1, SlotBytes: 64}, worker.Reduce)
	g.ranks[0].SetWatch(exec.Watch{Abort: &g.abort, Deadline: await.Lapse(30 * time.Millisecond), Yield: true})
	buf := make([]byte, 64)
	err := g.ranks[0].Run(exec.Call{Number: 1, Bytes: 64, Class: collective.Class{DataType: collective.Uint8}, Dst: unsafe.Pointer(&buf[0]), Src: unsafe.Pointer(&buf[0])})
	if late := (*exec.Late)(nil); !errors.As(err, &late) || late.Rank != 1 {
		t.Errorf("got %v", err)
	}
}

// TestAttachRefuses what is no agent's socket, and an agent of another version.
func TestAttachRefuses(t *testing.T) {
	for name, c := range map[string]struct{ message, want string }{
		"another service": {"220 smtp.example ESMTP\r\n", "no agent's for workers"},
		"nothing":         {"", "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s")
			l, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				if conn, err := l.Accept(); err == nil {
					_, _ = conn.Write([]byte(c.message))
					_ = conn.Close()
				}
			}()
			if _, err := worker.Attach(t.Context(), path); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

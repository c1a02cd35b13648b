package worker_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/internal/exec"
	"github.com/weir-project/weir/sdk/proto/sealed"
	"github.com/weir-project/weir/sdk/proto/workerv1"
	"github.com/weir-project/weir/sdk/worker"
	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/hostile"
)

// fuzzPatience is the longest that anything may take in a fuzz run, where deadlines are a hundredth of it.
var fuzzPatience = await.For(await.Plenty)

// guarded is a buffer between two walls, which say whether somebody wrote beside it.
type guarded struct{ all, buf []byte }

const wall = 64

func guard(n int) guarded {
	all := bytes.Repeat([]byte{0xa5}, n+2*wall)
	clear(all[wall : wall+n])
	return guarded{all, all[wall : wall+n : wall+n]}
}

func (g guarded) intact() bool {
	side := bytes.Repeat([]byte{0xa5}, wall)
	return bytes.Equal(g.all[:wall], side) && bytes.Equal(g.all[len(g.all)-wall:], side)
}

// vandal writes to the control file, and the inputs, as the input says: three bytes are where, then how it is written and what.
func vandal(control, inputs []byte, script []byte, stop *atomic.Bool) {
	for len(script) >= 6 && !stop.Load() {
		at, how, what := int(script[0])<<16|int(script[1])<<8|int(script[2]), script[3], uint64(script[4])
		memory := control
		if how&1 == 1 {
			memory = inputs
		}
		at %= len(memory) - 8
		switch word := (*uint64)(unsafe.Pointer(&memory[at&^7])); how >> 1 % 8 {
		case 0:
			memory[at] = byte(what)
		case 1:
			atomic.StoreUint64(word, ^uint64(0))
		case 2:
			atomic.StoreUint64(word, what<<32|uint64(script[5]))
		case 3:
			atomic.StoreUint64(word, what<<(script[5]%64))
		case 4:
			atomic.AddUint64(word, what)
		case 5:
			for i := at; i < min(at+int(script[5]), len(memory)); i++ {
				memory[i] = byte(what)
			}
		case 6:
			time.Sleep(time.Duration(what) * 10 * time.Microsecond)
		case 7: // again and again, for as long as there is somebody to disturb
			for range int(what) * 100 {
				atomic.StoreUint64(word, uint64(script[5]))
			}
		}
		script = script[6:]
	}
}

// FuzzMemory has an enemy, who may be the worker or a rank, write to the shared memory while ranks make calls and the worker
// serves. Sums may be wrong then. But everybody must come to an end by the deadline, and write nothing beside the output.
func FuzzMemory(f *testing.F) {
	done := func(tile byte) []byte { return []byte{0, 1, 0, 2 << 1, 1, tile} } // the completion word of slot 0
	f.Add(uint8(1), uint16(300), []byte{})
	f.Add(uint8(2), uint16(64), done(1))
	f.Add(uint8(2), uint16(1000), []byte{0, 1, 0, 2, 0, 0})                                       // far ahead
	f.Add(uint8(0), uint16(1000), append(done(9), []byte{0, 1, 0, 2 << 1, 2, 3}...))              // then failed
	f.Add(uint8(1), uint16(500), []byte{0, 1, 128, 2, 0, 0, 0, 1, 136, 4, 5, 0})                  // records
	f.Add(uint8(1), uint16(500), []byte{0, 0, 0, 5 << 1, 255, 255, 0, 0, 192, 1 << 1, 0, 0})      // header, stop
	f.Add(uint8(3), uint16(9), []byte{0, 0, 64, 7 << 1, 255, 1, 0, 0, 132, 7 << 1, 255, 0})       // bells
	f.Add(uint8(1), uint16(700), []byte{0, 1, 144, 5 << 1, 7, 64, 0, 1, 144, 5 << 1, 200, 64, 1}) // bytes of the tile
	f.Fuzz(func(t *testing.T, slots uint8, size uint16, script []byte) {
		watchdog := time.AfterFunc(fuzzPatience, func() { panic(fmt.Sprintf("hangs: %d slots, %d bytes, %x", slots, size, script)) })
		defer watchdog.Stop()
		shape := workerv1.Shape{World: 2, Slots: 1 + int(slots%8), SlotBytes: 128}
		files, agent, err := workerv1.Create(shape)
		if err != nil {
			t.Fatal(err)
		}
		defer agent.Unmap()
		defer files.Close()
		control, err := sealed.MapAll(files.Control, unix.PROT_READ|unix.PROT_WRITE)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Munmap(control) }()
		inputs, err := sealed.MapAll(files.Inputs, unix.PROT_READ|unix.PROT_WRITE)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Munmap(inputs) }()

		agentEnd, workerEnd := hostile.Sockets(t)
		served := make(chan error, 1)
		go func() {
			g, err := worker.Take(workerEnd)
			if err == nil {
				err = g.Serve(func(tile *worker.Tile) error {
					for _, in := range tile.In {
						if len(in) != len(tile.Out) || len(in) > 128 || len(in)%tile.DataType.Size() != 0 {
							t.Errorf("a tile of %d bytes, out %d", len(in), len(tile.Out))
						}
					}
					return worker.Reduce(tile)
				})
			}
			served <- err
		}()
		if err := workerv1.Offer(agentEnd, files.Control, files.ReadOK, time.Now().Add(fuzzPatience)); err != nil {
			t.Fatal(err)
		}
		deadline := fuzzPatience / 100
		var abort uint32
		var stop atomic.Bool
		var ranks, enemy sync.WaitGroup
		enemy.Go(func() { vandal(control, inputs, script, &stop) })
		for rank := range shape.World {
			m, err := workerv1.Map(files.Control, files.Inputs)
			if err != nil {
				return // the header is the enemy's already
			}
			ranks.Go(func() {
				defer m.Unmap()
				w := exec.NewWorker(m, rank, exec.Watch{Abort: &abort, Deadline: deadline, Yield: true})
				w.Patience, w.Overdue = deadline/4, func() { agent.GiveUp() }
				for call := range 3 {
					n := 1 + (int(size)+call)%3000
					src, dst := guard(n), guard(n)
					err := w.Run(exec.Call{
						Class: collective.Class{DataType: collective.Uint8, Op: collective.Sum}, Number: uint64(call + 1), Bytes: int64(n),
						Dst: unsafe.Pointer(&dst.buf[0]), Src: unsafe.Pointer(&src.buf[0]),
					})
					if !src.intact() || !dst.intact() || bytes.ContainsFunc(src.buf, func(r rune) bool { return r != 0 }) {
						t.Errorf("rank %d wrote beside its output in call %d (%v)", rank, call+1, err)
					}
					var lost *exec.WorkerLost
					if errors.As(err, &lost) {
						for _, p := range lost.Parts {
							if p.Offset < 0 || p.Bytes < 1 || p.Offset+p.Bytes > int64(n) {
								t.Errorf("lost %+v of %d bytes", p, n)
							}
						}
					}
				}
			})
		}
		ranks.Wait()
		stop.Store(true)
		enemy.Wait()
		agent.GiveUp()
		agent.Stop()
		_ = agentEnd.Close()
		<-served
	})
}

// FuzzOffer has something else than an agent hand a worker anything, with any descriptors, and something else than a worker
// answer an agent. Neither may crash, hang or keep a descriptor.
func FuzzOffer(f *testing.F) {
	good := append([]byte("WEIRWRKR"), 1, 0, 0, 0, 2, 0, 0, 0)
	f.Add(good, []byte{4, 5}, []byte{})
	f.Add(good, []byte{5, 4}, []byte{1})
	f.Add(good, []byte{4, 0}, []byte{1, 1})
	f.Add(good, []byte{4, 4, 5}, []byte("no room"))
	f.Add(good[:9], []byte{2, 3}, bytes.Repeat([]byte{7}, 2000))
	f.Add([]byte{}, []byte{1}, []byte{0})
	f.Fuzz(func(t *testing.T, message, which, answer []byte) {
		watchdog := time.AfterFunc(fuzzPatience, func() { panic(fmt.Sprintf("hangs: %x %x %x", message, which, answer)) })
		defer watchdog.Stop()
		files, memory, err := workerv1.Create(workerv1.Shape{World: 2, Slots: 2, SlotBytes: 64})
		if err != nil {
			t.Fatal(err)
		}
		defer memory.Unmap()
		defer files.Close()
		null, err := os.Open("/dev/null")
		if err != nil {
			t.Fatal(err)
		}
		defer null.Close()
		header, err := sealed.New("header", 8192)
		if err != nil {
			t.Fatal(err)
		}
		defer header.Close()
		if _, err := header.WriteAt(answer[:min(len(answer), 4096)], 0); err != nil {
			t.Fatal(err)
		}
		before := hostile.Descriptors(t)
		choice := []*os.File{null, header, files.Inputs, files.Control, files.Control, files.ReadOK}
		agentEnd, workerEnd := hostile.Sockets(t)
		var fds []int
		for _, w := range which[:min(len(which), 100)] {
			fds = append(fds, int(choice[int(w)%len(choice)].Fd()))
		}
		var oob []byte
		if len(fds) > 0 {
			oob = unix.UnixRights(fds...)
		}
		if len(message) > 0 {
			if _, _, err := agentEnd.WriteMsgUnix(message, oob, nil); err != nil {
				t.Fatal(err)
			}
		}
		_ = agentEnd.CloseWrite()
		if g, err := worker.Take(workerEnd); err == nil {
			_ = g.Serve(worker.Reduce) // ends at once: the agent is gone
		}

		agentEnd2, workerEnd2 := hostile.Sockets(t)
		if len(answer) > 0 {
			if _, err := workerEnd2.Write(answer); err != nil {
				t.Fatal(err)
			}
		}
		_ = workerEnd2.CloseWrite()
		err = workerv1.Offer(agentEnd2, files.Control, files.ReadOK, time.Now().Add(fuzzPatience))
		if serves := len(answer) == 1 && answer[0] == 1; serves != (err == nil) {
			t.Errorf("the answer %q: %v", answer, err)
		}
		for _, c := range []*net.UnixConn{agentEnd, workerEnd, agentEnd2, workerEnd2} {
			_ = c.Close()
		}
		if after := hostile.Descriptors(t); after > before {
			t.Errorf("%d descriptors are open, %d before", after, before)
		}
	})
}

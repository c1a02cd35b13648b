// Package worker is for plugins that do all-reduces themselves, in their own process: the plan kind "worker".
package worker

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/proto/trust"
	"github.com/weir-project/weir/sdk/proto/workerv1"
)

// Tile is a part of an all-reduce: the elements of every rank that are to be combined into Out. The memory is shared; it
// may be used only until Do returns, and the inputs only be read.
type Tile struct {
	Call     uint64 // number of the all-reduce within the group
	DataType collective.DataType
	Op       collective.Op
	In       [][]byte // by rank, each as long as Out
	Out      []byte
}

// connectTimeout bounds how long the agent may take to hand the memory over.
const connectTimeout = 5 * time.Second

// Group is a group of ranks that is served.
type Group struct {
	socket *net.UnixConn
	memory *workerv1.Memory
	gone   atomic.Bool
	ended  chan struct{}
}

// Attach takes the memory of a group from the agent's socket, as backend.Worker's Attach is told it. Serve must follow.
func Attach(ctx context.Context, socket string) (*Group, error) {
	conn, err := trust.Dial(ctx, socket)
	if err != nil {
		return nil, fmt.Errorf("attach: %w", err)
	}
	return take(conn)
}

// take takes the memory of a group from a connection to the agent.
func take(socket *net.UnixConn) (*Group, error) {
	g := &Group{socket: socket, ended: make(chan struct{})}
	var err error
	g.memory, err = workerv1.Accept(socket, time.Now().Add(connectTimeout))
	if answered := workerv1.Ready(socket, err); err == nil && answered != nil {
		g.memory.Unmap()
		err = answered
	}
	if err != nil {
		_ = socket.Close()
		return nil, fmt.Errorf("attach: %w", err)
	}
	go func() {
		workerv1.Ended(g.socket)
		g.gone.Store(true)
		close(g.ended)
	}()
	return g, nil
}

// World is the number of ranks.
func (g *Group) World() int { return g.memory.World }

const (
	spins = 2000                  // looks at the ranks' records before the worker sleeps: some 10 µs
	nap   = 50 * time.Millisecond // longest sleep between two looks at whether the agent is there
)

// Serve does the group's all-reduces, tile by tile, until the agent ends the service or is gone; then it returns nil and
// the memory is given up. An error of do is returned at once; the ranks then go on with another backend. It keeps one
// core busy while the ranks are.
func (g *Group) Serve(do func(*Tile) error) error {
	defer g.close()
	m := g.memory
	t := &Tile{In: make([][]byte, m.World)}
	for number := uint64(1); ; number++ {
		if !g.await(number) {
			return nil
		}
		first, same := g.agreed(number)
		if !same {
			continue // the ranks find it out by themselves and will not ask for another tile
		}
		slot := m.Slot(number)
		for rank := range t.In {
			t.In[rank] = m.Input(rank, slot)[:first.Bytes:first.Bytes]
		}
		t.Out = m.Output(slot)[:first.Bytes:first.Bytes]
		t.Call, t.DataType, t.Op = first.Call, collective.DataType(first.DataType), collective.Op(first.Op)
		if err := do(t); err != nil {
			return fmt.Errorf("all-reduce %d: %w", t.Call, err)
		}
		if !m.Complete(number) {
			return nil
		}
	}
}

// await waits until all ranks have filled their slots for a tile; false if they will not.
func (g *Group) await(number uint64) bool {
	m := g.memory
	arrived := func() bool {
		for rank := range m.World {
			if !m.Arrived(rank, number) {
				return false
			}
		}
		return true
	}
	over := func() bool { return m.Stopped() || g.gone.Load() }
	for n := 0; !arrived(); n++ {
		if over() {
			return false
		}
		if n%100 == 99 {
			runtime.Gosched()
		}
		if n > spins {
			m.AwaitDoorbell(func() bool { return arrived() || over() }, nap)
		}
	}
	return !over()
}

// agreed is what the ranks say of a tile, if they all say the same and it is possible.
func (g *Group) agreed(number uint64) (workerv1.Record, bool) {
	m := g.memory
	first := m.Record(0, number)
	for rank := 1; rank < m.World; rank++ {
		if m.Record(rank, number) != first {
			return first, false
		}
	}
	dt, op := collective.DataType(first.DataType), collective.Op(first.Op)
	possible := dt.Valid() && op.Valid() && first.Bytes > 0 && first.Bytes <= m.SlotBytes && first.Bytes%int64(dt.Size()) == 0
	return first, possible
}

// close gives the memory up. The connection's end tells the agent that nobody serves.
func (g *Group) close() {
	_ = g.socket.Close()
	<-g.ended
	g.memory.Unmap()
}

package conformance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/internal/exec"
	"github.com/weir-project/weir/sdk/proto/workerv1"
)

// service is a group of ranks of this process that the worker serves.
type service struct {
	team
	memory *workerv1.Memory // the agent's
	socket *net.UnixConn
	ended  chan struct{} // closed when the worker has closed its end
	maps   []*workerv1.Memory
	late   atomic.Bool // the worker took too long over a tile, and was given up for that
}

// attach does the agent's part: the memory, a socket, and the descriptors over it.
func (s *suite) attach(group string, world int, p *plan.Worker) (_ *service, err error) {
	w, ok := s.b.(backend.Worker)
	if !ok {
		return nil, errors.New("the backend has no Attach")
	}
	files, memory, err := workerv1.Create(workerv1.Shape{World: world, Slots: p.Slots, SlotBytes: p.SlotBytes})
	if err != nil {
		return nil, err
	}
	defer files.Close()
	g := &service{memory: memory, ended: make(chan struct{})}
	g.abort, g.close = new(uint32), g.end
	defer func() {
		if err != nil {
			g.unmap()
		}
	}()
	threads(world)
	for rank := range world {
		m, err := workerv1.Map(files.Control, files.Inputs)
		if err != nil {
			return nil, err
		}
		g.maps = append(g.maps, m)
		x := exec.NewWorker(m, rank, exec.Watch{Abort: g.abort, Deadline: 2 * s.deadline, Yield: world+1 >= runtime.NumCPU()})
		x.Patience, x.Overdue = s.deadline, func() { g.late.Store(true); g.memory.GiveUp() }
		g.ranks = append(g.ranks, func(c exec.Call) error {
			err := x.Run(c)
			if errors.As(err, new(*exec.WorkerLost)) && g.late.Load() {
				s.plugin.found.note(s, theRun, "the worker hangs")
				return fmt.Errorf("it took longer than %s over a tile that all ranks had handed over: %w", s.deadline, err)
			}
			return err
		})
	}
	if err := g.connect(s.ctx, w, group, files, s.deadline); err != nil {
		return nil, err
	}
	go func() {
		workerv1.Ended(g.socket)
		memory.GiveUp()
		close(g.ended)
	}()
	return g, nil
}

// connect has the worker attach, and hands it the memory.
func (g *service) connect(ctx context.Context, w backend.Worker, group string, files *workerv1.Files, patience time.Duration) error {
	dir, err := os.MkdirTemp("", "weir")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return fmt.Errorf("a socket for the worker: %w", err)
	}
	defer l.Close()
	deadline := time.Now().Add(patience)
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	answered := make(chan error, 1)
	go func() {
		err := w.Attach(ctx, group, path)
		// A connection made before the answer waits at the socket, so a moment is enough for one.
		_ = l.SetDeadline(time.Now().Add(100 * time.Millisecond))
		answered <- err
	}()
	_ = l.SetDeadline(deadline)
	socket, err := l.AcceptUnix()
	if err == nil {
		err = workerv1.Offer(socket, files.Control, files.ReadOK, deadline)
	}
	refused := <-answered
	if refused != nil {
		err = fmt.Errorf("attach: %w", refused)
	} else if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errors.New("the call of Attach succeeded, but nobody has connected to the socket and taken the memory")
	}
	if err != nil && socket != nil {
		_ = socket.Close()
	}
	g.socket = socket
	return err
}

// end gives the service up as the agent does.
func (g *service) end() {
	g.memory.Stop()
	_ = g.socket.Close()
	<-g.ended
	g.unmap()
}

func (g *service) unmap() {
	g.memory.Unmap()
	for _, m := range g.maps {
		m.Unmap()
	}
}

// someWorker is a group of the least advertised number of ranks from a number on, attached to the worker.
func (s *suite) someWorker(id string, least int) (*service, backend.Request, *plan.Worker, error) {
	for _, req := range s.requests() {
		if req.Group.WorldSize() < least || req.Class.Memory != collective.Host {
			continue
		}
		req.Group.ID = id
		p, _, err := s.plan(req)
		if err != nil {
			return nil, req, nil, err
		}
		if p == nil {
			continue
		}
		g, err := s.attach(id, req.Group.WorldSize(), p.(*plan.Worker))
		if err != nil {
			return nil, req, nil, fmt.Errorf("%s: %w", describe(req), err)
		}
		return g, req, p.(*plan.Worker), nil
	}
	return nil, backend.Request{}, nil, notApplicable(fmt.Sprintf("it accepted no group of %d ranks or more", least))
}

// attachIsHonest: an Attach that succeeds without a connection would leave the ranks to wait for nobody.
func (s *suite) attachIsHonest() error {
	g, req, _, err := s.someWorker("backendtest-attach", 1)
	if err != nil {
		return err
	}
	g.end()
	dir, err := os.MkdirTemp("", "weir")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(s.ctx, s.deadline)
	defer cancel()
	if err := s.b.(backend.Worker).Attach(ctx, req.Group.ID, filepath.Join(dir, "nobody")); err == nil {
		return errors.New("the call of Attach succeeded with the path of a socket that does not exist")
	}
	if ctx.Err() != nil {
		return fmt.Errorf("the call of Attach with the path of a socket that does not exist has not answered within %s", s.deadline)
	}
	return s.release(req.Group.ID)
}

// disagreementIsLeft: the ranks find out by themselves, and nothing may have been made of what does not belong together.
func (s *suite) disagreementIsLeft() error {
	g, req, p, err := s.someWorker("backendtest-disagreement", 2)
	if err != nil {
		return err
	}
	defer g.end()
	size := int64(req.Class.DataType.Size())
	most := min(p.SlotBytes, 16*size)
	noticed := false
	var mu sync.Mutex
	err = g.each(func(rank int, run func(exec.Call) error) error {
		bytes := most
		if rank == 1 {
			bytes -= size
		}
		if bytes == 0 {
			return notApplicable("a slot holds one element only")
		}
		src, dst := g.buffers(rank, bytes)
		err := run(exec.Call{Class: req.Class, Number: 1, Bytes: bytes, Dst: unsafe.Pointer(&dst[0]), Src: unsafe.Pointer(&src[0])})
		var mismatch *exec.Mismatch
		mu.Lock()
		noticed = noticed || errors.As(err, &mismatch)
		mu.Unlock()
		return err
	})
	if errors.As(err, new(notApplicable)) {
		return err
	}
	time.Sleep(50 * time.Millisecond) // for a worker that is slower than the ranks
	switch {
	case g.memory.Fate(1) == workerv1.Done:
		return fmt.Errorf("rank 1 called with %d bytes and the others with %d, and the worker completed the tile", most-size, most)
	case noticed:
		return nil
	}
	return fmt.Errorf("rank 1 called with %d bytes and the others with %d: %w", most-size, most, err)
}

// stopPatience is how long a worker may take to see that it is no longer wanted: it looks every 50 ms.
const stopPatience = 3 * time.Second

// workerStops looks at an idle worker.
func (s *suite) workerStops() error {
	g, _, _, err := s.someWorker("backendtest-stop", 1)
	if err != nil {
		return err
	}
	defer g.end()
	select {
	case <-g.ended:
		return errors.New("the worker has closed its connection before anybody asked it to")
	case <-time.After(150 * time.Millisecond): // so that it sleeps
	}
	g.memory.Stop()
	select {
	case <-g.ended:
		return nil
	case <-time.After(min(s.deadline, stopPatience)):
		return fmt.Errorf("its connection is still open %s after the stop word was set", min(s.deadline, stopPatience))
	}
}

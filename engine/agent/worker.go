package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/engine/limits"
	"github.com/weir-project/weir/engine/telemetry"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
	"github.com/weir-project/weir/sdk/proto/rankv1"
	"github.com/weir-project/weir/sdk/proto/trust"
	"github.com/weir-project/weir/sdk/proto/workerv1"
)

// service is a worker that serves one instance of a group.
type service struct {
	group      *group
	instance   uint64
	backend    string
	instanceOf *instance
	files      *workerv1.Files // until the ranks and the worker have them
	memory     *workerv1.Memory
	socket     *net.UnixConn
	bytes      int64 // of shared memory

	watched bool // done will be closed
	once    sync.Once
	ending  sync.Once
	done    chan struct{} // closed when the worker is gone and all that it had not done is given up

	mu    sync.Mutex
	why   error // why it is gone, or nil
	ended bool  // by us, because nobody needs it any more
}

// newService makes the memory of an instance.
func (g *group) newService(x *instance, shape workerv1.Shape) error {
	err := limits.Room(x.bytes)
	var files *workerv1.Files
	var memory *workerv1.Memory
	if err == nil {
		files, memory, err = workerv1.Create(shape)
	}
	if err != nil {
		err = limits.Explain(err)
		return &backend.Fault{Code: backend.InitFailed, Rank: backend.AnyRank, Err: err}
	}
	x.service = &service{group: g, instance: x.id, backend: x.backend, instanceOf: x, files: files, memory: memory, bytes: x.bytes, done: make(chan struct{})}
	return nil
}

// attach hands the memory to the worker.
func (s *service) attach(ctx context.Context, w backend.Worker, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	deadline, _ := ctx.Deadline()
	path := filepath.Join(filepath.Dir(s.group.job.agent.opts.Socket), fmt.Sprintf("w-%s-%d", s.group.id, s.instance))
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return fmt.Errorf("a socket for the worker: %w", err)
	}
	defer l.Close() // removes the socket
	if err := l.SetDeadline(deadline); err != nil {
		return err
	}
	answered := make(chan error, 1)
	go func() {
		err := w.Attach(ctx, s.group.id, path)
		if err != nil {
			_ = l.SetDeadline(time.Now()) // nobody will connect
		}
		answered <- err
	}()
	err = s.offer(l, deadline)
	if refused := <-answered; refused != nil {
		err = refused
	}
	s.files.Close()
	if err != nil {
		if s.socket != nil {
			_ = s.socket.Close()
		}
		return err
	}
	s.watched = true
	go s.watch()
	return nil
}

func (s *service) offer(l *net.UnixListener, deadline time.Time) error {
	socket, err := l.AcceptUnix()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &backend.Fault{Code: backend.Timeout, Rank: backend.AnyRank, Err: errors.New("the worker did not connect")}
	}
	if err != nil {
		return err
	}
	s.socket = socket
	who, err := trust.Peer(socket)
	if err != nil {
		return fmt.Errorf("who connected in place of the worker: %w", err)
	}
	if !who.Trusted() {
		return fmt.Errorf("%s is not the worker", who)
	}
	return workerv1.Offer(socket, s.files.Control, s.files.ReadOK, deadline)
}

// watch waits for the end of the worker.
func (s *service) watch() {
	workerv1.Ended(s.socket)
	s.gone(errors.New("the worker ended its service"))
}

// gone gives up what the worker has not done. The first to say why is believed.
func (s *service) gone(why error) {
	s.mu.Lock()
	if s.why == nil {
		s.why = why
	}
	why, ended := s.why, s.ended
	s.mu.Unlock()
	s.once.Do(func() {
		s.memory.GiveUp()
		if !ended {
			s.group.job.agent.spoil(s.instanceOf, why)
			s.group.job.agent.opts.Logger.Warn("worker is gone", "group", s.group.id, "backend", s.backend, "why", why)
		}
		close(s.done)
	})
}

// killPatience is how long the end of a worker that was killed may take to be seen.
const killPatience = 5 * time.Second

// overdue ends a worker that does not go on: its process is killed, so that what it has done is final.
func (s *service) overdue(rank int) {
	a := s.group.job.agent
	why := &backend.Fault{Code: backend.Timeout, Rank: backend.AnyRank, Err: fmt.Errorf("the worker did not do a part within %s of all ranks having handed it over", a.opts.WorkerDeadline)}
	s.mu.Lock()
	if s.why != nil {
		s.mu.Unlock()
		return
	}
	s.why = why
	s.mu.Unlock()
	if a.opts.Kill != nil {
		a.opts.Kill(s.instanceOf.process, why.Err)
	}
	select {
	case <-s.done:
	case <-time.After(killPatience): // even SIGKILL does not end it; the completion words keep it from doing harm
		_ = s.socket.Close()
		s.gone(why)
	case <-a.done:
	}
}

// end tells the worker that nobody needs it any more.
func (s *service) end() { s.ending.Do(s.endNow) }

func (s *service) endNow() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.memory.Stop()
	s.files.Close()
	if s.watched {
		_ = s.socket.Close()
		<-s.done
	}
	s.memory.Unmap()
}

// isGone reports whether it is known why the worker is gone, or will be in a moment: before what it has not done is given up,
// which ranks see at once.
func (s *service) isGone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why != nil
}

// fault is why the worker is gone.
func (s *service) fault() *backend.Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	var f *backend.Fault
	if errors.As(s.why, &f) {
		return f
	}
	return &backend.Fault{Code: backend.PluginCrashed, Rank: backend.AnyRank, Err: s.why}
}

// attach has the workers of chosen backends serve. It returns the backends that failed and why.
func (r *resolution) attach(ctx context.Context, chosen map[int]*instance) map[string][]backend.Reason {
	g := r.group
	failed := map[string][]backend.Reason{}
	for _, x := range chosen {
		if x.service == nil {
			continue
		}
		c, _ := lo.Find(r.candidates, func(c dispatch.Candidate) bool { return c.Info.Name == x.backend })
		w, ok := c.Backend.(backend.Worker)
		err := fmt.Errorf("backend %s does not attach", x.backend)
		if ok {
			err = x.service.attach(ctx, w, g.job.agent.opts.PrepareDeadline)
		}
		if err != nil {
			failed[x.backend] = append(failed[x.backend], backend.ReasonFor(err))
			continue
		}
		g.mu.Lock()
		g.services[x.id] = x.service
		g.mu.Unlock()
	}
	return failed
}

// dropLost forgets the instances whose loss is why the class is decided once more, and declines their backends in this
// decision. An instance that it does not know was dropped before: then every backend is asked anew.
func (r *resolution) dropLost() error {
	g := r.group
	var ids []uint64
	for _, id := range r.asked.lost {
		g.mu.Lock()
		s := g.services[id]
		g.mu.Unlock()
		if s == nil {
			continue
		}
		select {
		case <-s.done:
		case <-time.After(killPatience):
			return fmt.Errorf("rank asks for a decision without the worker of %s, which has not ended", s.backend)
		}
		r.decline(s.backend, backend.ReasonFor(s.fault()))
		g.freeAll([]*instance{s.instanceOf})
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return nil
	}
	return r.send(func(int) *rankv1.ToRank {
		return &rankv1.ToRank{Body: &rankv1.ToRank_Discard{Discard: &rankv1.Discard{Instances: ids}}}
	})
}

// endServices ends the workers of a group that is over.
func (g *group) endServices() {
	g.mu.Lock()
	services := g.services
	g.services = map[uint64]*service{}
	g.mu.Unlock()
	for _, s := range services {
		s.end()
	}
}

// overdue takes a rank's word that a worker does not go on.
func (g *group) overdue(rank int, instance uint64) {
	g.mu.Lock()
	s := g.services[instance]
	g.mu.Unlock()
	if s != nil {
		g.job.agent.wg.Go(func() { s.overdue(rank) })
	}
}

// failedOver records that a call went on with another backend. Every rank says so; one is enough.
func (g *group) failedOver(rank int, m *rankv1.FailedOver) error {
	if rank != 0 {
		return nil
	}
	class, err := pluginv1.ToClass(m.Class)
	if err != nil {
		return err
	}
	f := telemetry.Failover{
		Group: g.id, Class: class, Call: m.Call, Bytes: m.Bytes, Redone: m.Redone, From: m.From, To: m.To, Added: max(0, time.Duration(m.AddedNs)),
	}
	opts := g.job.agent.opts
	opts.Logger.Warn("a call went on with another backend", "group", g.id, "call", f.Call, "bytes", f.Bytes, "redone", f.Redone,
		"from", f.From, "to", f.To, "added", f.Added)
	opts.Tracer.Failover(g.job.agent.background(), f)
	if opts.Meter != nil {
		opts.Meter.FailedOver(g.job.agent.background(), f)
	}
	return nil
}

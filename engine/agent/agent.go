// Package agent serves the ranks of a host: it forms their groups, decides once for each group, and commits by all ranks or by none.
package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/samber/lo"
	"go.opentelemetry.io/otel/trace"

	"github.com/weir-project/weir/core/schedule"
	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/engine/loglimit"
	"github.com/weir-project/weir/engine/telemetry"
	"github.com/weir-project/weir/sdk/proto/rankv1"
	"github.com/weir-project/weir/sdk/proto/trust"
)

// Agent serves ranks until it is closed.
type Agent struct {
	opts     Options
	listener *net.UnixListener
	refused  *loglimit.Source // connections: anybody may try as often as they like
	done     chan struct{}    // closed by Close
	prover   *schedule.Prover
	wg       sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	members   map[*member]bool
	job       *job
	lastGroup int
	groups    map[*group]bool     // of all jobs
	past      []telemetry.Reading // of groups that have ended
	graph     topology.Graph      // Options.Topology, with what was proved since

	spoilt map[spoiltWorker]error // workers whose service has failed though their process lives; mu

	decidedMu sync.Mutex

	upgrading sync.Mutex    // one upgrade at a time
	lastID    atomic.Uint64 // of a message of an upgrade, above rankv1.AgentIDs

	proveMu sync.Mutex
	tried   map[[2]string]bool // directions given to Prove, by the devices' identities; proveMu
}

// provenSchedules is how many schedules an agent remembers the proof of: some for each size of group and backend.
const provenSchedules = 256

// Listen starts an agent.
func Listen(opts Options) (*Agent, error) {
	if opts.WorldSize < 1 {
		return nil, fmt.Errorf("agent for %d ranks", opts.WorldSize)
	}
	if err := trust.SocketFolder(filepath.Dir(opts.Socket)); err != nil {
		return nil, fmt.Errorf("folder of the agent's socket: %w", err)
	}
	l, err := bind(opts.Socket)
	if err != nil {
		return nil, fmt.Errorf("listen for ranks: %w", err)
	}
	a := &Agent{opts: opts, listener: l, refused: loglimit.New(opts.Logger, refusedLimit), members: map[*member]bool{}, groups: map[*group]bool{}, done: make(chan struct{}), prover: schedule.NewProver(provenSchedules), graph: opts.Topology, tried: map[[2]string]bool{}, spoilt: map[spoiltWorker]error{}}
	a.job = newJob(a)
	a.wg.Go(a.accept)
	a.wg.Go(a.collect)
	a.wg.Go(a.clock)
	a.wg.Go(a.watchLag)
	return a, nil
}

// Progress tells how far the ranks that join now or last are: how many are joined, and whether all of their job have gone, or
// gave up because not all came.
func (a *Agent) Progress() (joined int, over bool) {
	j := a.currentJob()
	j.mu.Lock()
	defer j.mu.Unlock()
	return lo.CountBy(j.ranks, func(m *member) bool { return m != nil }), j.over
}

// Socket is the path that ranks join at.
func (a *Agent) Socket() string { return a.opts.Socket }

// Close ends the agent. Ranks that are still joined keep the plans that they have.
func (a *Agent) Close() error {
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return nil
	}
	a.closed = true
	a.mu.Unlock()
	for _, g := range a.liveGroups() {
		g.failIfDeciding("the agent has been closed")
	}
	close(a.done)
	a.mu.Lock()
	for m := range a.members {
		_ = m.conn.Close()
	}
	a.mu.Unlock()
	err := a.listener.Close() // removes the socket
	for _, g := range a.liveGroups() {
		g.release()
	}
	a.wg.Wait()
	a.refused.Flush()
	for _, g := range a.liveGroups() {
		a.keepGroup(g, false)
		g.retire()
	}
	return err
}

// What strangers, and the libraries of one rank, can have the agent log.
var (
	refusedLimit = loglimit.Limit{Records: 20, Bytes: 64 << 10, Window: 10 * time.Second}
	memberLimit  = loglimit.Limit{Records: 200, Bytes: 256 << 10, Window: 10 * time.Second}
)

func (a *Agent) accept() {
	for {
		socket, err := a.listener.AcceptUnix()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			a.opts.Logger.Warn("a rank could not connect", "error", err)
			select { // out of descriptors, say: do not spin
			case <-time.After(100 * time.Millisecond):
			case <-a.done:
				return
			}
			continue
		}
		a.wg.Go(func() { a.serve(rankv1.NewConn(socket)) })
	}
}

// serve speaks with one process until it is gone.
func (a *Agent) serve(conn *rankv1.Conn) {
	m := &member{agent: a, conn: conn, rank: -1, left: make(chan struct{}), said: loglimit.New(a.opts.Logger, memberLimit)}
	defer m.said.Flush()
	defer conn.Close()
	if !a.register(m) {
		return
	}
	defer a.forget(m)
	if err := m.admit(); err != nil {
		a.refused.Warn("refused a connection", "error", err)
		return
	}
	m.gone = m.receive()
}

func (a *Agent) register(m *member) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false
	}
	a.members[m] = true
	return true
}

func (a *Agent) forget(m *member) {
	a.mu.Lock()
	delete(a.members, m)
	closed := a.closed
	a.mu.Unlock()
	if m.job != nil && !closed { // an agent that ends must not end the ranks' groups
		m.job.leave(m)
	}
}

// Lost is the ranks of the job that were lost, in that order: those whose connection ended though they had not left. A
// rank that fails because another was lost comes after it.
func (a *Agent) Lost() []int {
	j := a.currentJob()
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lost)
}

// RankExited tells the agent that a rank's process has ended, so that ranks that wait for it to join do not wait in
// vain. why is a sentence about the rank, such as "rank 3 exited with code 1".
func (a *Agent) RankExited(rank int, why string) {
	a.currentJob().rankExited(rank, why)
}

func (a *Agent) groupID() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lastGroup++
	return fmt.Sprintf("g%d", a.lastGroup)
}

func (a *Agent) decided(r Resolved) {
	if a.opts.Decided == nil {
		return
	}
	a.decidedMu.Lock()
	defer a.decidedMu.Unlock()
	a.opts.Decided(r)
}

// background is the context of work for a job, which outlives the message that started it.
func (a *Agent) background() context.Context {
	return trace.ContextWithRemoteSpanContext(context.Background(), a.opts.Parent)
}

package rank

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/internal/device"
	"github.com/weir-project/weir/sdk/internal/exec"
	"github.com/weir-project/weir/sdk/native/nccl"
	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// gpu is the device that a process joined with. A nil one is none.
type gpu struct {
	device *device.Device

	mu     sync.Mutex
	stop   chan struct{} // closed to end the watch; nil if none runs
	ended  chan struct{}
	closed bool
}

// openGPU opens a device and adds to a rank's facts what it knows of it.
func openGPU(name string, rank int, facts *collective.Rank) (*gpu, error) {
	d, err := device.Open(name, rank)
	if err != nil {
		return nil, err
	}
	facts.Device, facts.Driver = &d.Info, d.Driver
	if facts.Libraries, err = nccl.Loaded(); err != nil {
		_ = d.Close()
		return nil, err
	}
	return &gpu{device: d}, nil
}

func (g *gpu) close() {
	if g == nil {
		return
	}
	g.mu.Lock()
	stop, first := g.stop, !g.closed
	g.stop, g.closed = nil, true
	g.mu.Unlock()
	if stop != nil {
		close(stop)
		<-g.ended
		return // a graph may still hold calls of a communicator, which then ends in this context
	}
	if first {
		_ = g.device.Close() // the process's own users of the context keep it
	}
}

// watchEvery is how often plans for device memory are looked at: soon enough that a failure is known well within a second.
const watchEvery = 20 * time.Millisecond

// watch looks after the plans for device memory of all of a session's groups from one goroutine, from the first on.
func (g *gpu) watch(s *Session) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stop != nil || g.closed {
		return
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	g.stop, g.ended = stop, ended
	go func() {
		defer close(ended)
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case now := <-tick.C:
				for _, group := range s.allGroups() {
					group.watchDevice(now)
				}
			}
		}
	}()
}

// messages has what NCCL writes in this process go to the agent's log.
func (s *Session) messages() error {
	return exec.Messages(func(text string) {
		m := &rankv1.Log{Source: "nccl", Text: strings.ToValidUTF8(text, "\uFFFD")}
		_ = s.conn.Send(&rankv1.FromRank{Body: &rankv1.FromRank_Log{Log: m}}) // an agent that is gone keeps no log
	})
}

// deviceWatch is what watchDevice remembers of a group.
type deviceWatch struct {
	number uint64      // call at which a peer was first seen to be behind; 0 for none
	waited exec.Waited // since then
	looked uint64      // calls begun, of all ranks together, when the recorded ones were compared last
	doubt  uint64      // call in progress that a peer was seen to have refused; 0 for none
}

// watchDevice looks for what a call on a stream cannot report: what went wrong after the call had returned, ranks that
// disagree, a rank that does not come. A group that has failed has its plans aborted, so that nothing on the device waits
// for ever.
func (g *Group) watchDevice(now time.Time) {
	g.mu.Lock()
	plans := make([]devicePlan, 0, len(g.devicePlans))
	for _, s := range g.devicePlans {
		plans = append(plans, s.plan)
	}
	closed := g.closed
	g.mu.Unlock()
	if len(plans) == 0 || closed {
		return
	}
	if g.dead.Load() == nil {
		g.compare(now) // first, since it can say more of a rank that does not come
		for _, p := range plans {
			if err := p.Watch(now); err != nil {
				_ = g.giveUp(fmt.Sprintf("rank %d: %s", g.rank, err))
			}
		}
	}
	if g.dead.Load() != nil {
		for _, p := range plans {
			p.Abort()
		}
	}
}

// compare looks at what the peers have called last.
func (g *Group) compare(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	own := g.board.Begun(g.rank)
	if own.Number == 0 || own.Class.Memory != collective.CUDA || own.Rejected {
		return
	}
	begun := uint64(0)
	for rank := range g.ranks {
		begun += g.board.Number(rank)
	}
	if begun != g.watched.looked { // also at calls before the last, which have gone by
		g.watched.looked = begun
		if number, rank, differ := g.board.Differ(g.rank); differ {
			g.brokenLater(number, &exec.Mismatch{Rank: rank})
			return
		}
	}
	behind := -1
	for rank := range g.ranks {
		peer := g.board.Begun(rank)
		captured := peer.Class.Captured
		peer.Class.Captured = own.Class.Captured // a call is published before it is known whether it is captured
		switch {
		case rank == g.rank:
		case peer.Refused == own.Number && own.Done < own.Number && g.watched.doubt != own.Number:
			g.watched.doubt = own.Number // it may be about to be refused here too; if not, the next look will tell
			return
		case peer.Number == own.Number && (peer.Rejected || peer.Class != own.Class || peer.Bytes != own.Bytes),
			peer.Refused == own.Number && own.Refused != own.Number:
			g.brokenLater(own.Number, &exec.Mismatch{Rank: rank})
			return
		case peer.State != rankv1.Active && peer.Number < own.Number:
			g.brokenLater(own.Number, fmt.Errorf("%s; %s", g.gone(rank, peer.State), g.did(g.rank)))
			return
		case peer.Number < own.Number, peer.Number == own.Number && captured != own.Class.Captured,
			own.Done == own.Number && peer.Number == own.Number && peer.Done < own.Number: // it stays inside a call that this rank came out of
			behind = rank
		}
	}
	switch {
	case behind < 0:
		g.watched.number = 0
	case g.watched.number != own.Number:
		g.watched.number, g.watched.waited = own.Number, exec.Waited{}
		g.watched.waited.Until(now)
	case g.watched.waited.Until(now) > g.deadline:
		g.brokenLater(own.Number, &exec.Late{Rank: behind})
	}
}

// brokenLater is broken for a caller that holds g.mu, as long as which there is a board to take the words from.
func (g *Group) brokenLater(number uint64, err error) {
	text := g.words(number, err)
	g.mu.Unlock()
	defer g.mu.Lock()
	_ = g.giveUp(text)
}

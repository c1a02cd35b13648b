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

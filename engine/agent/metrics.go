package agent

import (
	"context"
	"slices"
	"time"

	"github.com/samber/lo"
	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/engine/telemetry"
	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// counter is what one pair of words on a group's board counts.
type counter struct {
	instance uint64
	backend  string
	class    collective.Class
	series   telemetry.Series
}

// counter is the number of the board's counter for an instance and class, the same as for the instance that it follows. g.mu
// is held. The last one is shared by all that the board has no room to tell apart.
func (g *group) counter(x *instance, class collective.Class) uint32 {
	return uint32(min(g.counterOf(x, class), rankv1.NumCounters-1))
}

// counterOf is counter without the board's limit.
func (g *group) counterOf(x *instance, class collective.Class) int {
	i := slices.IndexFunc(g.counters, func(c counter) bool { return c.backend == x.backend && c.class == class })
	if i < 0 {
		i = len(g.counters)
		g.counters = append(g.counters, counter{backend: x.backend, class: class, series: telemetry.NewSeries(g.id, x.backend, class)})
	}
	return i
}

// sampleEvery is how often the samples that ranks take are read. A ring holds 64 samples of every 64th call.
const sampleEvery = 500 * time.Millisecond

// collect turns the ranks' counters and samples into metrics until the agent closes.
func (a *Agent) collect() {
	if a.opts.Meter == nil {
		<-a.done
		return
	}
	// Not unregistered: the last collection comes when telemetry is shut down, after the agent has closed.
	if _, err := a.opts.Meter.RegisterSource(a.readings); err != nil {
		a.opts.Logger.Error("no metrics of calls", "error", err)
		<-a.done
		return
	}
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			a.recordSamples()
		case <-a.done:
			a.recordSamples()
			return
		}
	}
}

func (a *Agent) liveGroups() []*group {
	a.mu.Lock()
	defer a.mu.Unlock()
	return lo.Keys(a.groups)
}

// keepGroup notes that a group exists, or no longer does.
func (a *Agent) keepGroup(g *group, exists bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if exists {
		a.groups[g] = true
	} else {
		delete(a.groups, g)
	}
}

// readings are the counters of all groups, as rank 0 of each counts: the calls of a group are the same on every rank.
func (a *Agent) readings() []telemetry.Reading {
	a.mu.Lock()
	all := slices.Clone(a.past)
	a.mu.Unlock()
	for _, g := range a.liveGroups() {
		g.mu.Lock()
		all = append(all, g.readings()...)
		g.mu.Unlock()
	}
	return all
}

// readings are the counters of one group. g.mu is held.
func (g *group) readings() []telemetry.Reading {
	if g.closed {
		return nil
	}
	return lo.Map(g.counters[:min(len(g.counters), rankv1.NumCounters)], func(c counter, i int) telemetry.Reading {
		calls, bytes := g.board.Counter(0, uint32(i))
		return telemetry.Reading{Series: c.series, Calls: int64(calls), Bytes: int64(bytes)}
	})
}

func (a *Agent) recordSamples() {
	for _, g := range a.liveGroups() {
		g.mu.Lock()
		g.recordSamples(a.opts.Meter)
		g.mu.Unlock()
	}
}

// recordSamples records what the ranks have sampled since the last time. g.mu is held.
func (g *group) recordSamples(meter *telemetry.Meter) {
	if meter == nil || g.closed {
		return
	}
	for rank := range g.ranks {
		samples, now := g.board.Samples(rank, g.sampled[rank])
		g.sampled[rank] = now
		for counter, of := range lo.GroupBy(samples, func(s rankv1.Sample) uint32 { return s.Counter }) {
			if int(counter) < len(g.counters) {
				meter.RecordSamples(context.Background(), g.counters[counter].series, lo.Map(of, func(s rankv1.Sample, _ int) time.Duration {
					return time.Duration(s.Ns)
				}))
			}
		}
	}
}

// retire records the last samples of a group and lets its board go.
func (g *group) retire() {
	g.endServices()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	g.recordSamples(g.job.agent.opts.Meter)
	g.endSlow(time.Now(), "left")
	g.job.agent.keep(g.readings())
	g.closed = true
	_ = unix.Munmap(g.board.Memory())
}

// maxPast is how many readings of groups that have ended are kept, so that the last collection still has them.
const maxPast = 1024

func (a *Agent) keep(readings []telemetry.Reading) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.past = append(a.past, readings...)
	if extra := len(a.past) - maxPast; extra > 0 {
		a.past = slices.Delete(a.past, 0, extra)
	}
}

// clock sets the clocks of all groups until the agent closes.
func (a *Agent) clock() {
	tick := time.NewTicker(rankv1.ClockEvery)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			for _, g := range a.liveGroups() {
				g.setClock(now)
			}
		case <-a.done:
			return
		}
	}
}

func (g *group) setClock(t time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.board.SetClock(t)
	}
}

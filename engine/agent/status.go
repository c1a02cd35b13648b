package agent

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// GroupStatus is a live group: who is in it, what serves it, what it has done.
type GroupStatus struct {
	ID      string        `json:"id"`
	Epoch   uint64        `json:"epoch"`
	Failed  string        `json:"failed,omitempty"` // why it has
	Switch  *SwitchStatus `json:"switch,omitempty"` // the last one, while not all ranks have come to it
	Ranks   []RankStatus  `json:"ranks"`
	Classes []ClassStatus `json:"classes"` // that are decided
}

// SwitchStatus is a switch to other plans that some ranks have not come to: they have not begun the call yet.
type SwitchStatus struct {
	Call  uint64 `json:"call"` // the new plans make it and all later ones
	Ranks []int  `json:"ranks"`
}

// RankStatus is a member of a group.
type RankStatus struct {
	Rank   int       `json:"rank"`
	PID    int       `json:"pid"`
	Device string    `json:"device,omitempty"`
	Gone   bool      `json:"gone,omitempty"`
	Calls  uint64    `json:"calls"`           // begun
	Doing  string    `json:"doing"`           // in words
	Lag    float64   `json:"lag_s,omitempty"` // seconds that the others have waited for it, if it is slow
	Last   []CallLog `json:"last,omitempty"`
}

// ClassStatus is a decided class.
type ClassStatus struct {
	Class    string   `json:"class"`
	Epoch    uint64   `json:"epoch"` // since which it is served so
	Backends []Served `json:"backends"`
}

// Served is what a backend has done for a class. One that no longer serves has calls from before, or from graphs that keep
// its plan.
type Served struct {
	Backend string `json:"backend"`
	Serves  string `json:"serves,omitempty"` // byte counts; "" if it no longer does
	Calls   uint64 `json:"calls"`            // of rank 0
	Bytes   uint64 `json:"bytes"`            // of one rank's buffer, summed over the calls
}

// CallLog is a call as the flight recorder has it.
type CallLog struct {
	Number   uint64    `json:"number"`
	Class    string    `json:"class"`
	Bytes    int64     `json:"bytes"`
	Backend  string    `json:"backend,omitempty"`
	Start    time.Time `json:"start"`
	End      time.Time `json:"end,omitzero"`
	Rejected bool      `json:"rejected,omitempty"`
}

// Status is all groups as they are now. With calls it has the last calls of every rank.
func (a *Agent) Status(calls bool) []GroupStatus {
	return lo.FilterMap(a.groupsInOrder(), func(g *group, _ int) (GroupStatus, bool) { return g.status(calls) })
}

func byID(x, y *group) int { return cmp.Or(cmp.Compare(len(x.id), len(y.id)), cmp.Compare(x.id, y.id)) }

func (g *group) status(calls bool) (GroupStatus, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return GroupStatus{}, false
	}
	s := GroupStatus{ID: g.id, Epoch: lo.Max(lo.MapToSlice(g.inForce, func(_ int, f inForce) uint64 { return f.epoch })), Failed: g.dead, Classes: g.classes()}
	if p := g.pending; p != nil {
		s.Switch = &SwitchStatus{Call: p.number, Ranks: p.missing(g)}
	}
	for rank := range g.ranks {
		s.Ranks = append(s.Ranks, g.rankStatus(rank, calls))
	}
	return s, true
}

// rankStatus is a member. g.mu is held.
func (g *group) rankStatus(rank int, calls bool) RankStatus {
	b, facts := g.board.Begun(rank), g.facts.Ranks[rank]
	r := RankStatus{Rank: rank, PID: facts.PID, Gone: g.gone[rank], Calls: b.Number, Doing: "idle"}
	if d := facts.Device; d != nil {
		r.Device = cmp.Or(d.UUID, d.PCIBusID)
	}
	switch {
	case g.gone[rank]:
		r.Doing = "left"
	case b.Done < b.Number:
		r.Doing = "in " + b.String()
	}
	words, seconds := g.lagWords(rank, time.Now())
	r.Doing, r.Lag = r.Doing+words, seconds
	if calls {
		r.Last = lo.Map(g.board.Records(rank), func(c rankv1.Record, _ int) CallLog {
			l := CallLog{Number: c.Number, Class: c.Class.String(), Bytes: c.Bytes, Start: c.Start, Rejected: c.Rejected}
			if c.Ended {
				l.End = c.End
			}
			if c.Counter >= 0 && c.Counter < len(g.counters) {
				l.Backend = g.counters[c.Counter].backend
			}
			return l
		})
	}
	return r
}

// classes are the decided classes in their order. g.mu is held.
func (g *group) classes() []ClassStatus {
	var all []ClassStatus
	for _, index := range slices.Sorted(maps.Keys(g.inForce)) {
		class, now := collective.ClassAt(index), g.inForce[index]
		c := ClassStatus{Class: class.String(), Epoch: now.epoch}
		for i, x := range g.counters {
			if x.class != class || i >= rankv1.NumCounters {
				continue
			}
			s := Served{Backend: x.backend, Serves: now.serves[x.instance]}
			s.Calls, s.Bytes = g.board.Counter(0, uint32(i))
			c.Backends = append(c.Backends, s)
		}
		all = append(all, c)
	}
	return all
}

// inForce is the decision by which a class is served.
type inForce struct {
	decided
	epoch  uint64
	serves map[uint64]string // byte counts in words, by instance
}

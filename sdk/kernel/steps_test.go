package kernel_test

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/samber/lo"
)

// step is what can happen next.
type step struct {
	to    *state
	what  func() string
	wrong string // what the step shows to be broken; "" for nothing
}

// steps are all that can happen in a state. Where two launches of a rank run at once, or in another order than on the other
// ranks, wrong sums are the caller's fault and only the sequence must not move unnoticed.
func (m *model) steps(s *state) []step {
	all := m.bareSteps(s)
	for i := range all {
		if !m.lazy {
			all[i] = m.settled(all[i])
		}
		if m.streams {
			all[i].wrong = ""
		}
	}
	return all
}

// settled lets the blocks read all that they can.
func (m *model) settled(st step) step {
	for st.wrong == "" {
		read, ok := m.firstRead(st.to)
		if !ok {
			return st
		}
		before := st.what
		st = step{to: read.to, wrong: read.wrong, what: func() string { return before() + ", " + read.what() }}
	}
	return st
}

func (m *model) firstRead(s *state) (step, bool) {
	for r := range m.ranks {
		for c := range m.calls {
			for b := range m.callOf(r, c).grid {
				if m.block(s, r, c, b).pc != working {
					continue
				}
				if reads := m.reads(s, r, c, b); len(reads) > 0 {
					return reads[0], true
				}
			}
		}
	}
	return step{}, false
}

func (m *model) bareSteps(s *state) []step {
	var all []step
	for i, st := range s.stores {
		if i > 0 && sameSlot(s.stores[i-1], st) {
			continue // stores of one rank to one slot arrive in order
		}
		if !m.lazy && st.writer == st.owner {
			continue // landed by leave
		}
		to := s.clone()
		to.stores = slices.Delete(to.stores, i, i+1)
		m.land(to, st)
		all = append(all, step{to: to, what: func() string { return "lands: " + m.storeText(st) }})
	}
	for r := range m.ranks {
		for c := range m.calls {
			for b := range m.callOf(r, c).grid {
				all = append(all, m.blockSteps(s, r, c, b)...)
			}
		}
	}
	return all
}

func (m *model) blockSteps(s *state, rank, c, b int) []step {
	at := m.block(s, rank, c, b)
	name := func(what string) func() string {
		return func() string { return fmt.Sprintf("rank %d call %d block %d %s", rank, c, b, what) }
	}
	one := func(what string, do func(to *state) string) []step {
		to := s.clone()
		wrong := do(to)
		return []step{{to: to, what: name(what), wrong: wrong}}
	}
	switch at.pc {
	case notBegun, entering:
		if !m.mayBegin(s, rank, c) {
			return nil
		}
		if !m.streams || rank != 0 { // one launch at a time: nobody can see how far a block has entered
			return one("enters, pushes and clears", func(to *state) string {
				return cmp.Or(m.enter(to, rank, c, b, ticket), m.enter(to, rank, c, b, word), m.enter(to, rank, c, b, dead))
			})
		}
		return m.each(at, []entry{ticket, word, dead}, func(e entry) []step {
			return one("enters: "+entryNames[e], func(to *state) string { return m.enter(to, rank, c, b, e) })
		})
	case working:
		return m.reads(s, rank, c, b)
	case finished:
		return one("leaves", func(to *state) string { return m.leave(to, rank, c, b) })
	case lastOut:
		return m.each(at, m.exits(), func(e entry) []step {
			if e == advance && m.broken != resetFirst && at.got&byte(resetEntered|resetLeft) != byte(resetEntered|resetLeft) {
				return nil
			}
			return one("leaves last: "+entryNames[e], func(to *state) string { m.exit(to, rank, c, b, e); return "" })
		})
	}
	return nil
}

// each are the steps of what a block does in any order: it has done those in got.
func (m *model) each(at *block, what []entry, do func(entry) []step) []step {
	return lo.FlatMap(what, func(e entry, _ int) []step {
		if at.got&byte(e) != 0 {
			return nil
		}
		return do(e)
	})
}

// reads are the packets that a block finds when it looks. A slot whose flag is another's changes nothing.
func (m *model) reads(s *state, rank, c, b int) []step {
	var all []step
	at, call := m.block(s, rank, c, b), m.callOf(rank, c)
	needs := m.needs(call, rank, b)
	for i, n := range needs {
		slot := *m.slot(s, rank, m.cell(call, at.sequence, n))
		if at.got>>i&1 == 1 || slot&0x0f != m.flag(at.sequence, call) || slot>>4 == 0 && m.broken != onePacket {
			continue
		}
		to := s.clone()
		now := m.block(to, rank, c, b)
		now.got |= 1 << i
		wrong := m.forward(to, rank, c, b, needs, n)
		if int(now.got) == 1<<len(needs)-1 {
			now.pc = finished
		}
		if slot>>4 != m.data(rank, c) || slot>>4 != m.data(n.from, c) {
			wrong = fmt.Sprintf("call %d of rank %d adds what rank %d sent for %s", c, rank, n.from, dataText(slot>>4))
		}
		all = append(all, step{to: to, wrong: wrong, what: func() string {
			return fmt.Sprintf("rank %d call %d block %d reads packet %d of rank %d", rank, c, b, n.element, n.from)
		}})
	}
	return all
}

// forward sends an element's sum to all once its last packet has been read, in two-shot.
func (m *model) forward(s *state, rank, c, b int, needs []need, n need) string {
	at, call := m.block(s, rank, c, b), m.callOf(rank, c)
	missing := lo.SomeBy(lo.Range(len(needs)), func(i int) bool { return needs[i].element == n.element && at.got>>i&1 == 0 })
	if !call.twoShot || n.gathered || missing {
		return ""
	}
	wrong := ""
	for to := range m.ranks {
		if to != rank {
			wrong = cmp.Or(wrong, m.send(s, rank, to, c, at.sequence, need{element: n.element, from: rank, gathered: true}))
		}
	}
	return wrong
}

package kernel_test

import "github.com/samber/lo"

// need is a slot that a block has to read.
type need struct {
	element, from int
	gathered      bool // holds a sum, of two-shot's second phase
}

// sent is how many packets a call sends from a rank to another in one-shot.
func (m *model) sent(c call) int {
	if c.packets == 0 && m.broken != emptyTakesPart {
		return 1
	}
	return c.packets
}

// most is the largest of them.
func (m *model) most() int {
	if m.stride == 0 {
		m.stride = lo.Max(lo.Map(m.calls, func(c call, _ int) int { return m.sent(c) }))
	}
	return m.stride
}

func (m *model) anyTwoShot() bool { return lo.SomeBy(m.calls, func(c call) bool { return c.twoShot }) }

// inbox is how many slots one of a rank's two inboxes has: by phase, source and element.
func (m *model) inbox() int {
	return lo.Ternary(m.anyTwoShot(), 2, 1) * m.ranks * m.most()
}

// cell is a slot's place in its owner's inboxes.
func (m *model) cell(c call, sequence byte, n need) int {
	stride, parity := m.most(), int(sequence&1)
	if m.packed {
		stride = m.sent(c)
	}
	if m.broken == twoInboxes {
		parity = 0
	}
	phase := lo.Ternary(n.gathered, 1, 0)
	return parity*m.inbox() + phase*m.ranks*m.most() + n.from*stride + n.element
}

// elements are a block's.
func (m *model) elements(c call, block int) []int {
	return lo.Filter(lo.Range(m.sent(c)), func(e, _ int) bool { return e%c.grid == block })
}

// reducer is the rank that adds up an element in two-shot.
func (m *model) reducer(element int) int { return element % m.ranks }

// needer is a block of a rank in a call.
type needer struct {
	call        call
	rank, block int
}

// needs are the slots that a block of a rank reads.
func (m *model) needs(c call, rank, block int) []need {
	of := needer{c, rank, block}
	all, known := m.needed[of]
	if known {
		return all
	}
	for _, e := range m.elements(c, block) {
		if c.twoShot && m.reducer(e) != rank {
			all = append(all, need{element: e, from: m.reducer(e), gathered: true})
			continue
		}
		for from := range m.ranks {
			if from != rank && (m.broken != waitsForAll || from == (rank+1)%m.ranks) {
				all = append(all, need{element: e, from: from})
			}
		}
	}
	if m.needed == nil {
		m.needed = map[needer][]need{}
	}
	m.needed[of] = all
	return all
}

// uses are the places in a rank's inboxes that a call writes, by all blocks and ranks.
func (m *model) uses(c call, rank int, sequence byte) map[int]bool {
	used := map[int]bool{}
	for b := range c.grid {
		for _, n := range m.needs(c, rank, b) {
			used[m.cell(c, sequence, n)] = true
		}
	}
	return used
}

// cleared are the places that a block of a rank clears: its share of the call's window, without what the call uses.
func (m *model) cleared(c call, rank, block int, sequence byte) []int {
	if m.broken == clears {
		return nil
	}
	used := m.uses(c, rank, sequence)
	parity := int(sequence & 1)
	switch m.broken {
	case clearsOwnParity:
		parity = 1 - parity
	case twoInboxes:
		parity = 0
	}
	window := int(sequence>>1) % m.windows
	return lo.Filter(lo.RangeFrom(parity*m.inbox(), m.inbox()), func(place, _ int) bool {
		return place%m.windows == window && place/m.windows%c.grid == block && (!used[place] || m.broken == spareUsed) && m.written(rank, place)
	})
}

// written is whether a place of a rank's inboxes is ever written: a rank sends nothing to itself.
func (m *model) written(rank, place int) bool { return m.packed || place/m.most()%m.ranks != rank }

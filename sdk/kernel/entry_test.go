package kernel_test

import (
	"cmp"

	"github.com/samber/lo"
)

// entry is one of the operations with which a block enters, or the last one out leaves; they need no order among them.
type entry byte

const (
	ticket entry = 1 << iota // counts the block in
	word                     // reads the sequence, takes busy
	dead                     // sees whether the plan has a fault
	resetEntered
	resetLeft
	advance // sequence and busy, which are one word
	freeBusy
)

// Of a block that is entering, beside the operations it has done.
const (
	foundOther byte = 1 << 6
	foundDead  byte = 1 << 7
)

var entryNames = map[entry]string{
	ticket: "is counted in", word: "reads the sequence, takes busy", dead: "looks for a fault",
	resetEntered: "resets entered", resetLeft: "resets left", advance: "advances the sequence", freeBusy: "frees busy",
}

// id is what the launch passes; not 0. The second has all bits of the first.
func (m *model) id(c int) byte {
	if m.oneID {
		return 1
	}
	return []byte{1, 3, 2}[c%3]
}

func (m *model) enter(s *state, rank, c, b int, what entry) string {
	at, ctl := m.block(s, rank, c, b), &s.control[rank]
	if at.pc == notBegun && lo.SomeBy(lo.Range(len(m.calls)), func(o int) bool { return o != c && m.begun(s, rank, o) && !m.ended(s, rank, o) }) {
		ctl.overlapped = 1
	}
	at.pc = entering
	at.got |= byte(what)
	switch what {
	case ticket:
		if int(ctl.entered) >= m.callOf(rank, c).grid && m.broken != ticketChecked {
			at.got |= foundOther
		}
		ctl.entered = min(ctl.entered+1, 2*maxGrid)
	case word:
		at.sequence = ctl.sequence
		if m.broken == oneSequence {
			at.sequence = ctl.counters[b]
		}
		if m.broken == busyTaken {
			break
		}
		if ctl.busy != 0 && ctl.busy != m.id(c) {
			at.got |= foundOther
		}
		ctl.busy |= m.id(c)
	case dead:
		if ctl.fault != 0 { // whoever reports a fault kills the plan
			at.got |= foundDead
		}
	}
	switch all := byte(ticket | word | dead); {
	case at.got&all != all:
		return ""
	case at.got&(foundOther|foundDead) != 0:
		at.pc, at.got, at.sequence, ctl.fault = faulted, 0, 0, 1
		return ""
	}
	return m.push(s, rank, c, b)
}

func (m *model) push(s *state, rank, c, b int) string {
	at, call := m.block(s, rank, c, b), m.callOf(rank, c)
	at.got = 0
	at.pc = lo.Ternary(len(m.needs(call, rank, b)) == 0, finished, working)
	wrong := ""
	for _, e := range m.elements(call, b) {
		for to := range m.ranks {
			if to != rank && (!call.twoShot || to == m.reducer(e)) {
				wrong = cmp.Or(wrong, m.send(s, rank, to, c, at.sequence, need{element: e, from: rank}))
			}
		}
	}
	for _, place := range m.cleared(call, rank, b, at.sequence) {
		wrong = cmp.Or(wrong, m.store(s, c, store{writer: byte(rank), owner: byte(rank), cell: byte(place)}))
	}
	return wrong
}

func (m *model) leave(s *state, rank, c, b int) string {
	at, ctl := m.block(s, rank, c, b), &s.control[rank]
	at.pc, at.got = done, 0
	ctl.left++
	if m.broken == oneSequence {
		ctl.counters[b] = m.after(ctl.counters[b])
	}
	if m.broken == lastAdvances && ctl.left == 1 {
		ctl.sequence = m.after(ctl.sequence)
	}
	if int(ctl.left) != m.callOf(rank, c).grid {
		m.forget(at, rank)
		return ""
	}
	at.pc = lastOut
	if m.streams && rank == 0 {
		return ""
	}
	for _, e := range m.exits() {
		m.exit(s, rank, c, b, e)
	}
	if !m.lazy {
		m.landClears(s, rank)
	}
	return ""
}

func (m *model) after(sequence byte) byte { return (sequence + 1) & (1<<m.wordBits - 1) }

// exits are what the last block out stores, in no order.
func (m *model) exits() []entry {
	if m.broken == oneStore || m.broken == lastAdvances {
		return []entry{resetEntered, resetLeft, advance, freeBusy}
	}
	return []entry{resetEntered, resetLeft, advance}
}

func (m *model) exit(s *state, rank, c, b int, what entry) {
	at, ctl := m.block(s, rank, c, b), &s.control[rank]
	at.got |= byte(what)
	switch what {
	case resetEntered:
		ctl.entered = 0
	case resetLeft:
		ctl.left = 0
	case advance:
		if m.broken == lastAdvances {
			break
		}
		ctl.sequence = m.after(at.sequence)
		if m.broken != oneStore {
			ctl.busy = 0
		}
	case freeBusy:
		ctl.busy = 0
	}
	if lo.EveryBy(m.exits(), func(e entry) bool { return at.got&byte(e) != 0 }) {
		at.pc, at.got = done, 0
		m.forget(at, rank)
	}
}

// forget keeps states that differ in nothing that matters from being told apart.
func (m *model) forget(at *block, rank int) {
	if !m.streams || rank != 0 {
		at.sequence = 0
	}
}

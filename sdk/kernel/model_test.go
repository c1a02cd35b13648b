package kernel_test

import "slices"

// model is a small world for the protocol of weir_kernel.h: few ranks, blocks, packets and calls, and numbers of few
// bits, so that sequence and flags come round within the calls there are.
//
// What is atomic: a read or an atomic operation of a word of the rank's own control, which all its blocks agree on (they
// fence); a load and a store of eight bytes. A store to an inbox may become visible at any later time and in any order
// with the stores to other slots, but is visible before the next launch of the rank that made it begins.
type model struct {
	ranks    int
	calls    []call
	odd      []call // what the last rank calls in their place; nil for the same
	wordBits int    // of the sequence
	flagBits int    // of the sequence in the flag
	preset   int    // sequence of the first call
	windows  int    // calls of one parity after which the clearing has come round
	packed   bool   // a slot's place in the inbox depends on the call's size, so that it is another rank's from call to call
	resident int    // blocks of a rank that can run at once; 0 for all

	streams bool // rank 0 launches by turns on two streams, which nothing orders
	oneID   bool // and passes the same id
	broken  rule // the rule that is not kept; "" keeps all

	needed map[needer][]need // filled by needs
	stride int               // filled by most

	// lazy lets a packet lie in its slot for any time before it is read. It is exact. Without it a packet is read as soon
	// as it is there, and a store into a slot is wrong if the launch that reads what is there has not ended: nobody but
	// that slot tells when a packet was read, since the block can wait just as well before it leaves.
	lazy bool
}

// call is what all ranks call.
type call struct {
	packets int // from one rank to another; 0 is the call of no elements
	grid    int
	twoShot bool
	hash    byte // 0 or 1: equal hashes of unequal calls are the worst case
}

// rule is one that the checker can drop, to see that it would notice.
type rule string

const (
	twoInboxes       rule = "two inboxes"
	clears           rule = "slots are cleared"
	clearsOwnParity  rule = "slots of the call's own parity are cleared"
	spareUsed        rule = "slots that the call uses are not cleared"
	oneSequence      rule = "one sequence for all blocks"
	lastAdvances     rule = "the last block out advances the sequence"
	oneStore         rule = "busy is freed in the store that advances the sequence"
	busyTaken        rule = "a launch takes the rank's busy word"
	ticketChecked    rule = "no more blocks enter than the grid has"
	emptyTakesPart   rule = "a call of no elements takes part"
	storesEnd        rule = "stores are visible when the next launch begins"
	resetFirst       rule = "entered and left are reset before busy is free"
	onePacket        rule = "data and flag come in one store"
	waitsForAll      rule = "every rank waits for every rank"
	hashDisagreement rule = "ranks that disagree have different hashes"
)

// Where a block is.
const (
	notBegun byte = iota
	entering      // has done some of the operations with which it enters
	working       // has pushed, waits for packets
	finished      // has all it needs
	lastOut       // was the last, has to reset
	done
	faulted // found another launch of its rank
)

type block struct {
	pc, sequence byte
	got          byte // what it has of its needs, or has done of its entry
}

type control struct {
	sequence, entered, left, busy, fault, overlapped byte
	counters                                         [maxGrid]byte // what blocks have of their own where oneSequence is broken
}

// A slot's content and a store to it are one byte: whose data in the upper half, 0 for cleared, flag in the lower.
type store struct {
	writer, owner, cell byte // rank that stores, rank whose inboxes, place in them
	half                byte // 0 all of it; where onePacket is broken 1 data, 2 flag
	value               byte
}

type state struct {
	control []control
	blocks  []block // by rank, call, block
	cells   []byte  // by rank and place
	stores  []store // not yet visible, sorted by writer, owner and cell, oldest first
}

const maxGrid = 2

func (m *model) first() *state {
	s := &state{
		control: make([]control, m.ranks), cells: make([]byte, m.ranks*2*m.inbox()),
		blocks: make([]block, m.ranks*len(m.calls)*maxGrid),
	}
	for r := range m.ranks {
		s.control[r].sequence = byte(m.preset)
	}
	return s
}

func (s *state) clone() *state {
	return &state{control: slices.Clone(s.control), blocks: slices.Clone(s.blocks), stores: slices.Clone(s.stores), cells: slices.Clone(s.cells)}
}

func (s *state) key() string {
	k := make([]byte, 0, 256)
	for _, c := range s.control {
		k = append(k, c.sequence, c.entered, c.left, c.busy, c.fault|c.overlapped<<1)
		k = append(k, c.counters[:]...)
	}
	for _, b := range s.blocks {
		k = append(k, b.pc<<4|b.sequence, b.got)
	}
	k = append(k, s.cells...)
	for _, st := range s.stores {
		k = append(k, st.writer<<4|st.owner, st.cell<<2|st.half, st.value)
	}
	return string(k)
}

func (m *model) callOf(rank, c int) call {
	if m.odd != nil && rank == m.ranks-1 {
		return m.odd[c]
	}
	return m.calls[c]
}

// data is what a rank's packets of a call hold: no other call, and no other size, has the same.
func (m *model) data(rank, c int) byte {
	if m.callOf(rank, c) != m.calls[c] {
		return byte(oddData + c)
	}
	return byte(1 + c)
}

const oddData = 12

func callOfData(data byte) int {
	if data >= oddData {
		return int(data - oddData)
	}
	return int(data - 1)
}

func (m *model) flag(sequence byte, c call) byte {
	hash := c.hash
	if m.broken == hashDisagreement {
		hash = 0
	}
	return sequence&(1<<m.flagBits-1)<<1 | hash
}

func (m *model) slot(s *state, rank, place int) *byte { return &s.cells[rank*2*m.inbox()+place] }

func (m *model) block(s *state, rank, c, b int) *block {
	return &s.blocks[(rank*len(m.calls)+c)*maxGrid+b]
}

// begun and ended say where a launch is: it has begun when a block has, it has ended when all have.
func (m *model) begun(s *state, rank, c int) bool {
	return slices.ContainsFunc(m.blocksOf(s, rank, c), func(b block) bool { return b.pc != notBegun })
}

func (m *model) ended(s *state, rank, c int) bool {
	return !slices.ContainsFunc(m.blocksOf(s, rank, c), func(b block) bool { return b.pc != done && b.pc != faulted })
}

func (m *model) blocksOf(s *state, rank, c int) []block {
	from := (rank*len(m.calls) + c) * maxGrid
	return s.blocks[from : from+m.callOf(rank, c).grid]
}

// mayBegin is whether a block of the launch can start: launches of a stream follow one another.
func (m *model) mayBegin(s *state, rank, c int) bool {
	if m.broken != storesEnd && !m.begun(s, rank, c) && slices.ContainsFunc(s.stores, func(st store) bool {
		return int(st.writer) == rank
	}) {
		return m.streams && rank == 0 // which stream's stores they are is not known: none has to wait
	}
	running := 0
	for _, b := range m.blocksOf(s, rank, c) {
		if b.pc != notBegun && b.pc != done && b.pc != faulted {
			running++
		}
	}
	if m.resident > 0 && running >= m.resident {
		return false
	}
	before := 1
	if m.streams && rank == 0 {
		before = 2
	}
	return c < before || m.ended(s, rank, c-before)
}

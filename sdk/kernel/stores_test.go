package kernel_test

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/samber/lo"
)

func (m *model) send(s *state, rank, to, c int, sequence byte, n need) string {
	call := m.callOf(rank, c)
	st := store{
		writer: byte(rank), owner: byte(to), cell: byte(m.cell(call, sequence, n)),
		value: m.data(rank, c)<<4 | m.flag(sequence, call),
	}
	if m.broken != onePacket {
		return m.store(s, c, st)
	}
	data, flag := st, st
	data.half, flag.half = 1, 2
	return cmp.Or(m.store(s, c, data), m.store(s, c, flag))
}

// store issues a store. In a model that is not lazy it must come after all others to that slot, and what it overwrites
// must have been read: the launch that reads it must have ended.
func (m *model) store(s *state, c int, st store) string {
	wrong := ""
	if !m.lazy && lo.SomeBy(s.stores, func(o store) bool { return o.owner == st.owner && o.cell == st.cell && o.writer != st.writer }) {
		wrong = m.storeText(st) + ", to where another store is under way"
	}
	if old := *m.slot(s, int(st.owner), int(st.cell)) >> 4; !m.lazy && old != 0 {
		if before := callOfData(old); before != c && !m.ended(s, int(st.owner), before) {
			wrong = fmt.Sprintf("%s, but call %d of rank %d may still have to read what is there", m.storeText(st), before, st.owner)
		}
	}
	at, _ := slices.BinarySearchFunc(s.stores, st, func(a, b store) int {
		return cmp.Or(cmp.Compare(a.writer, b.writer), cmp.Compare(a.owner, b.owner), cmp.Compare(a.cell, b.cell), cmp.Compare(a.half, b.half), -1)
	})
	s.stores = slices.Insert(s.stores, at, st)
	return wrong
}

func sameSlot(a, b store) bool {
	return a.writer == b.writer && a.owner == b.owner && a.cell == b.cell && a.half == b.half
}

func (m *model) land(s *state, st store) {
	slot := m.slot(s, int(st.owner), int(st.cell))
	switch st.half {
	case 1:
		*slot = *slot&0x0f | st.value&0xf0
	case 2:
		*slot = *slot&0xf0 | st.value&0x0f
	default:
		*slot = st.value
	}
}

func (m *model) storeText(st store) string {
	what := fmt.Sprintf("%s with flag %d", dataText(st.value>>4), st.value&0x0f)
	what = []string{what, "the data of " + what, "the flag of " + what}[st.half]
	return fmt.Sprintf("rank %d's %s into slot %d of rank %d", st.writer, what, st.cell, st.owner)
}

func dataText(data byte) string {
	switch {
	case data == 0:
		return "nothing"
	case data >= oddData:
		return fmt.Sprintf("call %d, which it calls in another size", callOfData(data))
	default:
		return fmt.Sprintf("call %d", callOfData(data))
	}
}

// landClears lets a rank's own stores into its inboxes become visible.
func (m *model) landClears(s *state, rank int) {
	s.stores = slices.DeleteFunc(s.stores, func(st store) bool {
		mine := st.writer == st.owner && int(st.owner) == rank
		if mine {
			m.land(s, st)
		}
		return mine
	})
}

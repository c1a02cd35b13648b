package workerv1

import (
	"sync/atomic"
	"unsafe"
)

// A rank's record of a slot, a line of 64 bytes.
const (
	recTile  = 0  // uint64: the tile that the rank has filled the slot for; stored last
	recCall  = 8  // uint64: number of the all-reduce within the group
	recBytes = 16 // uint64: of the tile
	recTotal = 24 // uint64: of the all-reduce
	recType  = 32 // uint32: data type, by its number
	recOp    = 36 // uint32: reduce op, by its number
)

// Record is what a rank says of the tile that it has filled its slot for.
type Record struct {
	Call     uint64
	Bytes    int64 // of the tile
	Total    int64 // of the all-reduce
	DataType uint32
	Op       uint32
}

func (m *Memory) record(rank, slot int) int64 {
	return m.records() + line*(int64(rank)*int64(m.Slots)+int64(slot))
}

// Arrive publishes a rank's record of a tile, when its slot is filled, and reports whether it was the last of the ranks.
func (m *Memory) Arrive(rank int, tile uint64, r Record) (last bool) {
	slot := m.Slot(tile)
	at := m.record(rank, slot)
	*m.word64(at + recCall), *m.word64(at + recBytes), *m.word64(at + recTotal) = r.Call, uint64(r.Bytes), uint64(r.Total)
	*m.half(at + recType), *m.half(at + recOp) = r.DataType, r.Op
	// With a full barrier: of two ranks that arrive at once, at least one sees the other.
	atomic.StoreUint64(m.word64(at+recTile), tile)
	for peer := range m.World {
		if !m.Arrived(peer, tile) {
			return false
		}
	}
	return true
}

// Arrived reports whether a rank has filled its slot for a tile.
func (m *Memory) Arrived(rank int, tile uint64) bool {
	return atomic.LoadUint64(m.word64(m.record(rank, m.Slot(tile))+recTile)) >= tile
}

// Record is what a rank said of the slot's tile, for which it must have arrived.
func (m *Memory) Record(rank int, tile uint64) Record {
	at := m.record(rank, m.Slot(tile))
	return Record{
		Call: *m.word64(at + recCall), Bytes: int64(*m.word64(at + recBytes)), Total: int64(*m.word64(at + recTotal)),
		DataType: *m.half(at + recType), Op: *m.half(at + recOp),
	}
}

func (m *Memory) half(at int64) *uint32 { return (*uint32)(unsafe.Pointer(&m.control[at])) }

// Complete says that a tile is done; false if it had been given up. Only the worker calls it.
func (m *Memory) Complete(tile uint64) bool {
	slot := m.Slot(tile)
	word := m.Completion(slot)
	before := atomic.LoadUint64(word)
	if before>>32 == Failed || !atomic.CompareAndSwapUint64(word, before, Completion(tile, Done)) {
		return false
	}
	m.ring(offBell, offWaiting, allWaiters)
	return true
}

// GiveUp has every tile that is not done fail, and all later ones. Only the agent calls it, for a worker that is gone.
func (m *Memory) GiveUp() {
	for slot := range m.Slots {
		word := m.Completion(slot)
		for {
			before := atomic.LoadUint64(word)
			next := before + uint64(m.Slots)
			if before == 0 {
				next = uint64(slot) + 1
			}
			if before>>32 == Failed || atomic.CompareAndSwapUint64(word, before, Completion(next, Failed)) {
				break
			}
		}
	}
	m.ring(offBell, offWaiting, allWaiters)
}

// Fate says what has become of a tile that this rank has filled its slot for: Done, Failed, or 0 for neither so far.
func (m *Memory) Fate(tile uint64) uint32 {
	v := atomic.LoadUint64(m.Completion(m.Slot(tile)))
	state := uint32(v >> 32)
	switch ahead := int32(uint32(v) - uint32(tile)); {
	case ahead > 0:
		return Done // only a done tile is followed by another
	case ahead == 0 && state != 0, state == Failed:
		return state
	}
	return 0
}

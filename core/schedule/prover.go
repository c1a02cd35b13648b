package schedule

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"

	"github.com/weir-project/weir/core/plan"
)

// Prover proves schedules and remembers what came out. It is safe for concurrent use; equal schedules are proved once,
// also at the same time.
type Prover struct {
	limit int

	mu     sync.Mutex
	proofs map[[sha256.Size]byte]func() error
	oldest [][sha256.Size]byte // in the order in which they came
}

// NewProver makes a prover that remembers up to limit schedules, at least one; the oldest is forgotten first.
func NewProver(limit int) *Prover {
	return &Prover{limit: max(1, limit), proofs: map[[sha256.Size]byte]func() error{}}
}

// Prove is the function Prove.
func (p *Prover) Prove(s *plan.Schedule) error {
	key := hash(s)
	p.mu.Lock()
	prove := p.proofs[key]
	if prove == nil {
		if len(p.oldest) == p.limit {
			delete(p.proofs, p.oldest[0])
			p.oldest = p.oldest[1:]
		}
		prove = sync.OnceValue(func() error { return Prove(s) })
		p.proofs[key] = prove
		p.oldest = append(p.oldest, key)
	}
	p.mu.Unlock()
	return prove()
}

// hash is of all that a schedule says. Every list is preceded by its length, so that no two schedules read alike.
func hash(s *plan.Schedule) [sha256.Size]byte {
	var b []byte
	add := func(values ...int) {
		for _, v := range values {
			b = binary.AppendVarint(b, int64(v))
		}
	}
	add(int(s.TileBytes), s.Buffers, s.Slots, s.Signals, s.Chunks, len(s.Programs))
	for _, program := range s.Programs {
		add(len(program))
		for i := range program {
			t := &program[i]
			final := 0
			if t.Final {
				final = 1
			}
			add(int(t.Kind), int(t.Dst.Where), t.Dst.Rank, t.Dst.Slot, t.Chunk, final, t.Rank, t.Signal, t.Lag, len(t.Srcs))
			for _, p := range t.Srcs {
				add(int(p.Where), p.Rank, p.Slot)
			}
		}
	}
	return sha256.Sum256(b)
}

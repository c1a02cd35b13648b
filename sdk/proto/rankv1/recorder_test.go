package rankv1

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-project/weir/core/collective"
)

// TestRecordOfAnEndedCall reads records while a rank makes calls that turn out to be captured, which it publishes twice: one that
// has ended is never what it was published as at first, or peers would take it for another call than theirs.
func TestRecordOfAnEndedCall(t *testing.T) {
	const calls = 300_000
	b := NewBoard(make([]byte, BoardSize(2)), 2)
	b.SetClock(time.Unix(1, 0))
	eager := collective.Class{Memory: collective.CUDA, Op: collective.Sum}
	captured := eager
	captured.Captured = true
	var over atomic.Bool
	go func() {
		defer over.Store(true)
		for n := range uint64(calls) {
			b.Begin(0, n+1, eager.Index(), 64)
			b.Begin(0, n+1, captured.Index(), 64)
			b.End(0, n+1)
		}
	}()
	for !over.Load() {
		if r, ok := b.RecordOf(0, b.Number(0)); ok && r.Ended && !r.Class.Captured {
			t.Fatalf("%s has ended, and was captured then", r)
		}
	}
}

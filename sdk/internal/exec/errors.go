package exec

import (
	"errors"
	"fmt"
)

// ErrAborted means that the group had failed already: another rank, or the engine, set the abort word.
var ErrAborted = errors.New("the group has failed")

// Mismatch means that a peer made a different call (another data type, op or byte count) where this rank made its own.
// It is found before any of the peer's data is used.
type Mismatch struct{ Rank int }

func (m *Mismatch) Error() string {
	return fmt.Sprintf("rank %d made a different call (data type, op or byte count)", m.Rank)
}

// Late means that a peer did not give a signal before the deadline of the call.
type Late struct {
	Rank   int // the peer that was waited for
	Signal int
}

func (l *Late) Error() string {
	return fmt.Sprintf("rank %d did not come to signal %d of the schedule before the deadline", l.Rank, l.Signal)
}

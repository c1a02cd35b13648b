package schedule

import (
	"fmt"

	"github.com/weir-project/weir/core/plan"
)

// Event is a step of a rank for a tile. Steps are counted from 0, tiles from 1.
type Event struct{ Rank, Step, Tile int }

// wholeProgram as a step is something that the program lacks.
const wholeProgram = -1

// Refused is a schedule that is wrong, with an example of how it goes wrong.
type Refused struct {
	At      Event   // Step is -1 if it is something that the rank's program lacks
	With    []Event // the steps of other ranks that have a part in it
	Problem string  // what goes wrong there, in words

	step    string
	details []string
}

func refuse(s *plan.Schedule, at Event, with []Event, problem string, details ...string) *Refused {
	r := &Refused{At: at, With: with, Problem: problem, details: details}
	if at.Step != wholeProgram {
		r.step = fmt.Sprintf(", step %d (%s)", at.Step, Words(s.Programs[at.Rank][at.Step]))
	}
	return r
}

// Error is one line.
func (r *Refused) Error() string {
	return fmt.Sprintf("schedule: rank %d%s, tile %d: %s", r.At.Rank, r.step, r.At.Tile, r.Problem)
}

// Details are further lines, where there is more to say: how the ranks come there.
func (r *Refused) Details() []string { return r.details }

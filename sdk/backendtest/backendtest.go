// Package backendtest checks that a backend keeps the contract of backend.Backend: one call in an author's test.
package backendtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/schedule"
)

// Run checks a backend as subtests of t. It asks about groups that the backend's requirements say it serves, so facts
// of this machine play no part. Schedule plans are run, by goroutines as ranks, and their results compared with what
// is known exactly, for every data type and reduce op; they must also be proved, as the engine demands. Other plans are
// checked for shape.
//
// The backend may be in this process or behind a connection. Run may raise GOMAXPROCS, since ranks wait for each other.
func Run(t *testing.T, b backend.Backend) {
	t.Helper()
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			s := newSuite(t.Context(), b)
			err := r.check(s)
			var skip notApplicable
			switch {
			case errors.As(err, &skip):
				t.Skip(skip)
			case err != nil:
				t.Error(err)
			}
		})
	}
}

// rules are what a backend is held to, each a subtest.
var rules = []struct {
	name  string
	check func(*suite) error // nil if the rule is kept; notApplicable if it does not concern the backend
}{
	{"info", (*suite).infoIsValid},
	{"requirements", (*suite).requirementsAreChecked},
	{"accept", (*suite).advertisedIsAccepted},
	{"repeatable", (*suite).acceptIsPure},
	{"hypothetical", (*suite).hypotheticalIsAnswered},
	{"deadline", (*suite).doneContextReturns},
	{"plan", (*suite).planIsValid},
	{"results", (*suite).resultsAreExact},
	{"same_bits", (*suite).bitsAreTheSame},
	{"release", (*suite).releaseIsHarmless},
}

// notApplicable says why a rule does not concern a backend.
type notApplicable string

func (n notApplicable) Error() string { return string(n) }

// suite is one backend under test.
type suite struct {
	ctx      context.Context
	b        backend.Backend
	info     backend.Info
	deadline time.Duration // of one call of a rank, and of one answer
	prover   *schedule.Prover
}

func newSuite(ctx context.Context, b backend.Backend) *suite {
	return &suite{ctx: ctx, b: b, info: b.Info(), deadline: 20 * time.Second, prover: schedule.NewProver(64)}
}

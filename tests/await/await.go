// Package await has the deadlines of all tests: how long is long enough depends on the machine, which is one place's business.
package await

import (
	"context"
	"sync"
	"time"
)

// Plenty is longer than anything that a test waits for takes on a machine with nothing else to do.
const Plenty = 20 * time.Second

// Test is what is used here of a test, a benchmark or a fuzz target.
type Test interface {
	Helper()
	Fatalf(format string, args ...any)
	Context() context.Context
	Cleanup(f func())
}

// For is the deadline here and now that is d where a test has the machine to itself. It is meant for what must happen before the deadline
// passes. One that a test waits to see pass, with nobody who must be faster, needs no factor: see Lapse.
func For(d time.Duration) time.Duration { return time.Duration(float64(d) * factor()) }

// By is when For(d), from now on, has passed.
func By(d time.Duration) time.Time { return time.Now().Add(For(d)) }

// Lapse is a deadline that a test waits to see pass while nobody has to be faster: it is d on every machine, so that a slow one does not
// become slower.
func Lapse(d time.Duration) time.Duration { return d }

// Context is a test's own context, with a deadline of For(d).
func Context(t Test, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), For(d))
	t.Cleanup(cancel)
	return ctx
}

// Until waits for what another goroutine or process brings about, and ends the test if it does not happen. ok is called again and again,
// by this goroutine.
func Until(t Test, what string, ok func() bool) {
	t.Helper()
	if waited, happened := poll(func() time.Duration { return For(Plenty) }, ok); !happened { // with load that comes meanwhile
		t.Fatalf("not within %s: %s", waited.Round(time.Millisecond), what)
	}
}

// Poll is Until for where an end without success is no failure, or not this goroutine's to tell: it reports whether ok came to be true
// within a time, which is a For or a Lapse.
func Poll(within time.Duration, ok func() bool) bool {
	_, happened := poll(func() time.Duration { return within }, ok)
	return happened
}

// poll looks soon at first, since most things happen at once, and later seldom, since it takes time from those it waits for. A limit that
// grows while it waits counts.
func poll(limit func() time.Duration, ok func() bool) (waited time.Duration, happened bool) {
	const soonest, seldom = 100 * time.Microsecond, 10 * time.Millisecond
	start, nap, longest := time.Now(), soonest, time.Duration(0)
	for !ok() {
		longest, waited = max(longest, limit()), time.Since(start)
		if waited > longest {
			return waited, ok() // which may have happened while this goroutine did not run
		}
		time.Sleep(nap)
		nap = min(nap*5/4, seldom)
	}
	return time.Since(start), true
}

// Receive is what comes from a channel, or the zero value once it is closed. It ends the test if neither happens.
func Receive[T any](t Test, what string, from <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-time.After(For(Plenty)):
		t.Fatalf("not within %s: %s", For(Plenty), what)
	}
	return value
}

// Wait waits until all goroutines of a group have ended, and ends the test if they do not.
func Wait(t Test, what string, wg *sync.WaitGroup) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		wg.Wait()
	}()
	Receive(t, what, ended)
}

package await

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestLoad(t *testing.T) {
	for text, want := range map[string]float64{
		"":                               1, // no /proc
		"what else":                      1,
		"0.00 0.01 0.05 1/129 25747":     1,
		"2.00 1.00 1.00 2/129 25747":     1,
		"0.10 0.10 0.10 8/129 25747":     4, // which have only just begun
		"6.00 3.00 1.00 1/129 25747":     3,
		"900.00 300.00 1.00 2/900 25747": most,
	} {
		if got := load(text, 2); got != want {
			t.Errorf("%q: %g, want %g", text, got, want)
		}
	}
}

func TestVariable(t *testing.T) {
	for text, want := range map[string]float64{"": 1, "1": 1, "2.5": 2.5, "1000": 1000} {
		if got, err := parse(text); err != nil || got != want {
			t.Errorf("%q: %g, %v; want %g", text, got, err, want)
		}
	}
	for _, text := range []string{"0", "-1", "0.5", "NaN", "Inf", "1e9", "3x", " "} {
		if got, err := parse(text); err == nil {
			t.Errorf("%q is taken for %g", text, got)
		}
	}
}

func TestFor(t *testing.T) {
	if got := For(time.Second); got < time.Second*raced {
		t.Errorf("%s, want %d s at least", got, raced)
	}
}

// TestPoll runs in time that stands still while anybody works.
func TestPoll(t *testing.T) {
	for after, want := range map[time.Duration]bool{0: true, time.Second: true, 59 * time.Second: true, 100 * time.Hour: false} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			if got := Poll(For(time.Minute), func() bool { return time.Since(start) >= after }); got != want {
				t.Errorf("what happens after %s has happened: %t after %s", after, got, time.Since(start))
			}
		})
	}
}

// failing is a test whose end is looked at.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Fatalf(format string, args ...any) { f.said = fmt.Sprintf(format, args...) }

func TestWhatDoesNotHappen(t *testing.T) {
	for name, wait := range map[string]func(Test){
		"until":   func(t Test) { Until(t, "rain", func() bool { return false }) },
		"receive": func(t Test) { Receive(t, "rain", make(chan int)) },
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &failing{TB: t}
			if wait(f); f.said == "" {
				t.Errorf("%s: the test goes on", name)
			}
		})
	}
}

func TestContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := Context(t, time.Second)
		if <-ctx.Done(); ctx.Err() != context.DeadlineExceeded {
			t.Error(ctx.Err())
		}
	})
}

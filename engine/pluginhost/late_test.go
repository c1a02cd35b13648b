package pluginhost

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-project/weir/core/backend"
)

// slow is what a plugin is that has not described itself in time.
var slow = behaviour{up: 10 * time.Second, fault: &backend.Fault{Code: backend.Timeout, Rank: backend.AnyRank, Err: errors.New("it did not come up within 10s")}}

// TestSlowToComeUp: a plugin that is too slow to come up is started again, and who waits for it is told.
func TestSlowToComeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, f, h := supervised(t, Restart{}, func(n int) behaviour {
			if n < 2 {
				return slow
			}
			return behaviour{up: 3 * time.Second}
		})
		served := make(chan string, 1)
		h.WhenServing(func(plugin string) { served <- plugin })
		if c := h.Candidates(); len(c) != 1 || c[0].Backend != nil || backend.ReasonFor(c[0].Fault).Code != backend.Timeout {
			t.Errorf("candidates %+v of a plugin that is not up", c)
		}
		if !h.Await(t.Context(), "flat") {
			t.Error("the plugin was not waited for")
		}
		if name := <-served; name != "flat" {
			t.Errorf("plugin %q serves, want flat", name)
		}
		if c := h.Candidates(); len(c) != 1 || c[0].Backend == nil {
			t.Errorf("candidates %+v of a plugin that is up", c)
		}
		if got := len(f.starts); got != 3 || s.late {
			t.Errorf("%d starts, late %t, want 3 and that it is late no longer", got, s.late)
		}
	})
}

// TestNeverComesUp: it is given up in the end, and nobody waits for it then. What is wrong with it otherwise is no reason to try again.
func TestNeverComesUp(t *testing.T) {
	crashes := slow
	crashes.fault = &backend.Fault{Code: backend.PluginCrashed, Rank: backend.AnyRank, Err: errors.New("exit status 1")}
	for name, c := range map[string]struct {
		does   behaviour
		starts int
		why    string
	}{
		"too slow each time": {slow, 6, "plugin flat: it did not come up 6 times in a row and is not started again; the last time: it did not come up within 10s"},
		"it has crashed":     {crashes, 1, "exit status 1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, f, h := supervised(t, Restart{}, always(c.does))
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				if h.Await(ctx, "flat") {
					t.Error("it serves")
				}
				time.Sleep(time.Hour)
				if err := h.Candidates()[0].Fault; len(f.starts) != c.starts || err == nil || !strings.Contains(err.Error(), c.why) {
					t.Errorf("%d starts, %v, want %d and %q", len(f.starts), err, c.starts, c.why)
				}
				if s.status().Err == nil {
					t.Error("the status tells of nothing")
				}
			})
		})
	}
}

// TestSlowAtTheEnd: an engine that ends does not wait for a plugin that is tried again.
func TestSlowAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, h := supervised(t, Restart{}, always(slow))
		time.Sleep(time.Second)
		begin := time.Now()
		h.Close()
		if took := time.Since(begin); took > time.Second {
			t.Errorf("the end took %s", took)
		}
	})
}

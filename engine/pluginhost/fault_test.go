package pluginhost_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/engine/pluginhost"
	"github.com/weir-project/weir/tests/await"
)

func wantFault(t *testing.T, err error, code backend.Code, text string) {
	t.Helper()
	var f *backend.Fault
	if !errors.As(err, &f) || f.Code != code || !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %#v (%v), want a %s fault of one line with %q", err, err, code, text)
	}
}

func TestFaultsAtStart(t *testing.T) {
	for mode, c := range map[string]struct {
		code backend.Code
		want string
	}{
		"hang":            {backend.Timeout, "still loading"},
		"frozen":          {backend.Timeout, "did not come up within"},
		"exit3":           {backend.PluginCrashed, "exit status 3; it last said: libfoo.so.1 is missing"},
		"panic":           {backend.PluginCrashed, "panic: no device"},
		"signal":          {backend.PluginCrashed, "signal: killed"},
		"configure-hang":  {backend.Timeout, "did not come up within"},
		"configure-panic": {backend.Other, "panic: cannot configure"},
		"configure-exit":  {backend.PluginCrashed, "exit status 4"},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			opts, _ := options(t)
			bad := spec(t, "bad", mode)
			bad.Insecure = mode == "frozen"
			specs := []pluginhost.Spec{bad, spec(t, "good", "good")}
			if c.code == backend.Timeout {
				opts.StartTimeout, specs = await.For(time.Second), specs[:1] // the good one may need longer on a busy machine
			}
			h := start(t, opts, specs...)
			all := h.Candidates()
			if len(all) != len(specs) || all[0].Backend != nil {
				t.Fatalf("%+v", all)
			}
			wantFault(t, all[0].Fault, c.code, c.want)
			d := dispatch.Resolve(t.Context(), all, hostRequest().Group, hostRequest().Class, dispatch.Options{})
			if d.Table.Complete() != (len(specs) == 2) {
				t.Errorf("the other plugin does not serve: %+v", d.Answers)
			}
			st := h.Plugins()[0]
			if st.Err == nil || st.PID == 0 {
				t.Errorf("%+v", st)
			}
			await.Until(t, "the failed plugin is gone", func() bool { return !alive(st.PID) })
		})
	}
}

func TestFaultsInCalls(t *testing.T) {
	for call, c := range map[string]struct {
		code backend.Code
		want string
		dies bool
	}{
		"accept-hang":     {backend.Timeout, "did not answer in time", false},
		"accept-panic":    {backend.Other, "panic: in accept", false},
		"accept-exit":     {backend.PluginCrashed, "exit status 5; it last said: fatal error: out of luck", true},
		"accept-nonsense": {backend.Other, "maybe", false},
		"plan-hang":       {backend.Timeout, "did not answer in time", false},
		"plan-panic":      {backend.Other, "panic: in plan", false},
		"plan-exit":       {backend.PluginCrashed, "exit status 6", true},
		"plan-nil":        {backend.PlanRejected, "empty plan", false},
		"plan-worker":     {backend.PlanRejected, "advertises a schedule", false},
		"plan-impossible": {backend.PlanRejected, "bytes in a tile", false},
		"plan-large":      {backend.PlanRejected, "an engine takes 75497472 (72 MiB) at most", false},
		"plan-error":      {backend.Other, "cannot plan", false},
	} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			opts, log := options(t)
			opts.Restart.First = time.Hour // what is dead stays so
			if c.code == backend.Timeout {
				opts.CallTimeout = await.For(50 * time.Millisecond)
			}
			h := start(t, opts, spec(t, "bad", "good:"+call))
			b := h.Candidates()[0].Backend
			ask := func() error {
				_, err := b.Accept(t.Context(), hostRequest())
				if err == nil {
					_, err = b.Plan(t.Context(), hostRequest(), backend.AllBytes())
				}
				return err
			}
			wantFault(t, ask(), c.code, c.want)
			wantFault(t, ask(), c.code, c.want) // at once, if it is dead
			st := h.Plugins()[0]
			if dead := st.Err != nil; dead != c.dies || alive(st.PID) == c.dies {
				t.Errorf("dead: %v (%v), want %v\n%s", dead, st.Err, c.dies, log)
			}
		})
	}
}

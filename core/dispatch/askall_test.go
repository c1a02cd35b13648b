package dispatch_test

import (
	"context"
	"testing"
	"time"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/tests/await"
)

// TestAskAllAsksAtOnce has backends that answer only when all have been asked.
func TestAskAllAsksAtOnce(t *testing.T) {
	const n = 16
	asked, all := make(chan struct{}, n), make(chan struct{})
	go func() {
		for range n {
			<-asked
		}
		close(all)
	}()
	meet := func(ctx context.Context, _ backend.Request) (backend.Verdict, error) {
		asked <- struct{}{}
		select {
		case <-all:
			return small, nil
		case <-time.After(await.For(await.Plenty)):
			return busy, nil
		}
	}
	var cs []dispatch.Candidate
	for i := range n {
		cs = append(cs, candidate(string(rune('a'+i)), 0, meet))
	}
	d := resolve(cs, dispatch.Options{AskAll: true})
	for _, a := range d.Answers {
		if a.Verdict.Kind != backend.Accept {
			t.Errorf("%s was asked after another had answered: %s", a.Backend, a.Verdict)
		}
	}
	if got := serving(d, 1); got != "a" {
		t.Errorf("served by %s, want the first of the cascade", got)
	}
}

func TestGates(t *testing.T) {
	off := backend.Because(backend.DisabledByUser, "off by default", "--enable-fast")
	model := backend.Because(backend.ProbeUnavailable, "model unknown", "one of its list")
	for _, c := range []struct {
		name         string
		gates        []backend.Reason
		requirements backend.Requirements
		want         string
	}{
		{"none", nil, backend.Requirements{}, "accept all sizes"},
		{"off", []backend.Reason{off}, backend.Requirements{}, "decline; DISABLED_BY_USER: off by default, needs --enable-fast"},
		{
			"off, and unmet",
			[]backend.Reason{off},
			backend.Requirements{WorldSizes: backend.Exactly(8)},
			"decline; DISABLED_BY_USER: off by default, needs --enable-fast; WORLD_SIZE: 4, needs 8",
		},
		{"unknown", []backend.Reason{model}, backend.Requirements{}, "unknown; PROBE_UNAVAILABLE: model unknown, needs one of its list"},
		{
			"unknown twice",
			[]backend.Reason{model},
			backend.Requirements{Platforms: []string{"x"}},
			"unknown; PROBE_UNAVAILABLE: model unknown, needs one of its list; PROBE_UNAVAILABLE: platform unknown, needs x",
		},
		{
			"unknown, and unmet",
			[]backend.Reason{model},
			backend.Requirements{WorldSizes: backend.Exactly(8)},
			"decline; PROBE_UNAVAILABLE: model unknown, needs one of its list; WORLD_SIZE: 4, needs 8",
		},
		{
			"off, and unknown",
			[]backend.Reason{off},
			backend.Requirements{Platforms: []string{"x"}},
			"decline; DISABLED_BY_USER: off by default, needs --enable-fast; PROBE_UNAVAILABLE: platform unknown, needs x",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := candidate("a", 0, answering(all))
			x.Gates, x.Info.Requirements = c.gates, c.requirements
			d := resolve([]dispatch.Candidate{x}, dispatch.Options{AskAll: true, Hypothetical: true})
			if got := d.Answers[0].Verdict.String(); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if len(c.gates) > 0 && asked(x) > 0 {
				t.Error("asked although a gate stands in the way")
			}
			d = resolve([]dispatch.Candidate{x}, dispatch.Options{})
			if v := d.Answers[0].Verdict; v.Kind == backend.Unknown {
				t.Errorf("at run time unknown is a decline, not %s", v)
			}
		})
	}
}

package conformance

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
)

// resultsOnDevice has ranks with GPUs run the plans. What this machine's facts decline is not tried.
func (s *suite) resultsOnDevice() error {
	d, err := s.device()
	if err != nil {
		return err
	}
	ran := 0
	var declined error
	for i, world := range d.Worlds(s.serves) {
		classes := lo.Filter(s.classes(), func(c collective.Class, j int) bool {
			return c.Memory == collective.CUDA && (i == 0 || j%5 == 0)
		})
		s.doing("%s, %d classes on the GPU", backend.Count(world, "rank"), len(classes))
		if len(classes) == 0 {
			continue
		}
		outcomes, err := d.Try(s.ctx, s.b, world, classes, false)
		if err != nil {
			return fmt.Errorf("%s: %w", backend.Count(world, "rank"), err)
		}
		for j, outcome := range outcomes {
			switch {
			case outcome == nil:
				ran++
			case isDecline(outcome):
				declined = fmt.Errorf("%s, %s: %w", backend.Count(world, "rank"), classes[j], outcome)
			default:
				return fmt.Errorf("%s, %s: %w", backend.Count(world, "rank"), classes[j], outcome)
			}
		}
	}
	switch {
	case ran > 0:
		return nil
	case declined != nil:
		return notApplicable("this machine is declined: " + declined.Error())
	}
	return notApplicable(fmt.Sprintf("no advertised number of ranks can be tried on this machine's GPUs (a %s)", s.info.Kind))
}

// Declined is the outcome of a class that the backend does not serve on this machine, as opposed to one that went wrong.
type Declined struct{ Reasons []backend.Reason }

func (d *Declined) Error() string {
	return strings.Join(lo.Map(d.Reasons, func(r backend.Reason, _ int) string { return r.String() }), "; ")
}

// isDecline tells a backend that is not for this machine from one that failed on it.
func isDecline(err error) bool {
	var d *Declined
	return errors.As(err, &d) && !lo.SomeBy(d.Reasons, func(r backend.Reason) bool {
		switch r.Code {
		case backend.SelfTestFailed, backend.PlanRejected, backend.Timeout, backend.PluginCrashed, backend.SymbolMissing:
			return true
		}
		return false
	})
}

// device is where GPUs are.
func (s *suite) device() (Device, error) {
	if s.plugin.Device == nil {
		return nil, notApplicable(fmt.Sprintf("a %s is run on GPUs: %s", s.info.Kind, cmp.Or(s.plugin.NoDevice, "run `weir plugins test` where there is one")))
	}
	return s.plugin.Device, nil
}

// kernelsLeave holds a plan that says so to leaving when the abort word is set, while a peer is missing.
func (s *suite) kernelsLeave() error {
	d, err := s.device()
	if err != nil {
		return err
	}
	claimed := false
	_ = s.eachPlan(func(_ backend.Request, p plan.Plan, _ []backend.Range) error {
		claimed = claimed || p.(*plan.Kernel).PollsAbort
		return nil
	})
	if !claimed {
		return notApplicable("no plan says that its kernels poll the abort word")
	}
	for _, world := range d.Worlds(s.serves) {
		class, found := lo.Find(s.classes(), func(c collective.Class) bool { return c.Memory == collective.CUDA && !c.Captured })
		if world < 2 || !found {
			continue
		}
		s.doing("%d ranks, %s, one of which does not come", world, class)
		outcomes, err := d.Try(s.ctx, s.b, world, []collective.Class{class}, true)
		switch {
		case err != nil:
			return err
		case isDecline(outcomes[0]):
			return notApplicable("this machine is declined: " + outcomes[0].Error())
		case outcomes[0] != nil:
			return fmt.Errorf("%d ranks, %s: %w", world, class, outcomes[0])
		}
		return nil
	}
	return notApplicable("no group of two ranks or more can be tried on this machine's GPUs")
}

package conformance

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/plan"
)

var validName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// infoIsValid: names that the configuration can hold, bounds that make sense, and the same answer every time.
func (s *suite) infoIsValid() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	i := s.info
	if !validName.MatchString(i.Name) {
		wrong("Info: name %q, want lower-case letters, digits and single '-' between them", i.Name)
	}
	if i.Description == "" || strings.ContainsAny(i.Description, "\n\r") {
		wrong("Info: description %q, want one line", i.Description)
	}
	if !slices.Contains(plan.Kinds(), i.Kind) {
		wrong("Info: unknown kind of plan %q, want one of %v", i.Kind, plan.Kinds())
	}
	if _, ok := s.b.(backend.Worker); i.Kind == plan.WorkerKind && !ok {
		wrong("Info: the kind of plan is worker, but the backend has no Attach and Detach")
	}
	if !reflect.DeepEqual(i, s.b.Info()) {
		wrong("Info: two calls gave different answers")
	}
	if q := i.Requirements; q.Order != "" && (!q.Deterministic || !validName.MatchString(string(q.Order))) {
		wrong("Info: order of addition %q, want a name of lower-case letters and digits, of a backend that is deterministic", q.Order)
	}
	return errors.Join(append(errs, boundsAreValid(i.Requirements)...)...)
}

func boundsAreValid(q backend.Requirements) []error {
	var errs []error
	for _, span := range q.WorldSizes {
		if span.Min < 1 || span.Max < span.Min {
			errs = append(errs, fmt.Errorf("requirements: world sizes %d to %d", span.Min, span.Max))
		}
	}
	for _, w := range q.Windows {
		if err := w.Range.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("requirements: byte window: %w", err))
		}
	}
	for name, v := range map[string]int64{"multiple": q.Multiple, "alignment": int64(q.Alignment), "in flight": int64(q.InFlight), "NUMA nodes": int64(q.NUMANodes)} {
		if v < 0 {
			errs = append(errs, fmt.Errorf("requirements: %s is %d", name, v))
		}
	}
	return errs
}

// windowsCoverWorlds: a world size that is advertised but has no byte window would be declined after all.
func (s *suite) windowsCoverWorlds() error {
	windows := s.info.Requirements.Windows
	if len(windows) == 0 {
		return nil
	}
	missing, found := lo.Find(lo.RangeFrom(1, plan.MaxWorld), func(world int) bool {
		return len(s.info.Requirements.WorldSizes) > 0 && s.serves(world) &&
			!lo.SomeBy(windows, func(w backend.Window) bool { return w.WorldSizes == backend.Span{} || w.WorldSizes.Contains(world) })
	})
	if found {
		return fmt.Errorf("requirements: world size %d is advertised, but no byte window is for it", missing)
	}
	return nil
}

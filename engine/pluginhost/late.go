package pluginhost

import (
	"errors"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/engine/limits"
)

// late reports whether a plugin did not come up for reasons that another try may not find: the machine was busy, or short of something. It
// is started again then, as one that has ended by itself; whatever else is wrong with it would be so again.
func (r *running) late() bool {
	var fault *backend.Fault
	return r.attached == nil && errors.As(r.fault, &fault) && (fault.Code == backend.Timeout || r.process != nil && limits.Exhausted(r.process.startErr))
}

// fits refuses a process in the place of another: one must offer what the other did, or, if the other never said, nothing that somebody else
// offers.
func (h *Host) fits(s *slot, last, next *running) error {
	if last.fault == nil {
		return sameOffer(last.offer, next.offer)
	}
	return h.checkNames(func(other *slot) *running { return lo.Ternary(other == s, next, other.nowRunning()) })
}

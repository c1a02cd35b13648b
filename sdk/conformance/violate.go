package conformance

import (
	"errors"
	"fmt"
	"slices"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/topology"
)

// requirementsAreChecked: some request meets the requirements, and each of them has an effect: breaking it alone is a
// decline with its code.
func (s *suite) requirementsAreChecked() error {
	if err := s.windowsCoverWorlds(); err != nil {
		return err
	}
	requests := s.requests()
	if len(requests) == 0 {
		return errors.New("requirements: no group and class can meet them all")
	}
	var errs []error
	for _, v := range s.violations() {
		base, ok := v.base(requests)
		switch {
		case !ok && v.gpu && !allows(s.info.Requirements.Memories, collective.CUDA):
			errs = append(errs, fmt.Errorf("requirements: %s is looked at only for CUDA memory, which the backend does not serve", v.what))
			continue
		case !ok:
			continue // such as links, for a backend of single ranks
		}
		got := s.info.Requirements.Check(base)
		if got.Kind != backend.Decline || !lo.SomeBy(got.Reasons, func(r backend.Reason) bool { return r.Code == v.code }) {
			errs = append(errs, fmt.Errorf("requirements: %s is not met, want a decline with %s, got: %s", v.what, v.code, got))
		}
	}
	return errors.Join(errs...)
}

// violation breaks one requirement in a request that meets all.
type violation struct {
	what    string
	code    backend.Code
	ranks   int  // the least that it needs
	gpu     bool // it shows only with CUDA memory
	breakIt func(*backend.Request)
}

// base is a request that breaks the requirement, made of one that meets all; ok is false if none of them can be.
func (v violation) base(requests []backend.Request) (req backend.Request, ok bool) {
	req, ok = lo.Find(requests, func(r backend.Request) bool {
		return r.Group.WorldSize() >= v.ranks && (!v.gpu || r.Class.Memory == collective.CUDA)
	})
	if ok {
		req.Group = clone(req.Group)
		v.breakIt(&req)
	}
	return req, ok
}

// violations are those that the backend's requirements make possible.
func (s *suite) violations() []violation {
	return slices.Concat(s.callViolations(), s.groupViolations(), s.gpuViolations())
}

func (s *suite) callViolations() []violation {
	q := s.info.Requirements
	var all []violation
	if m, ok := other(q.Memories, collective.Memories()); ok {
		all = append(all, violation{"memory", backend.MemoryKind, 1, false, func(r *backend.Request) { r.Class.Memory, r.Class.Captured = m, false }})
	}
	if d, ok := other(q.DataTypes, collective.DataTypes()); ok {
		all = append(all, violation{"data type", backend.DType, 1, false, func(r *backend.Request) { r.Class.DataType = d }})
	}
	if o, ok := other(q.Ops, collective.Ops()); ok {
		all = append(all, violation{"op", backend.OpCode, 1, false, func(r *backend.Request) { r.Class.Op = o }})
	}
	if q.Registered {
		all = append(all, violation{"registered", backend.MemoryKind, 1, false, func(r *backend.Request) { r.Class.Registered = false }})
	}
	if m, ok := other(q.Modes, []backend.Mode{backend.Eager, backend.Captured}); ok && allows(q.Memories, collective.CUDA) {
		all = append(all, violation{"mode", backend.CaptureState, 1, true, func(r *backend.Request) { r.Class.Captured = m == backend.Captured }})
	}
	return all
}

func (s *suite) groupViolations() []violation {
	q := s.info.Requirements
	var all []violation
	add := func(applies bool, what string, code backend.Code, ranks int, breakIt func(*backend.Request)) {
		if applies {
			all = append(all, violation{what, code, ranks, false, breakIt})
		}
	}
	unserved, found := lo.Find(lo.RangeFrom(1, plan.MaxWorld+1), func(n int) bool { return !s.serves(n) })
	add(found, "world size", backend.WorldSize, 1, func(r *backend.Request) { r.Group = s.group(unserved) })
	add(q.Scope != backend.AnyScope, "scope", backend.MultiHost, 2, func(r *backend.Request) { r.Group.Ranks[0].Host = "another-host" })
	add(q.NUMANodes > 1, "NUMA nodes", backend.NUMACode, 2, func(r *backend.Request) {
		for i := range r.Group.Ranks {
			r.Group.Ranks[i].NUMA = "0"
		}
	})
	add(q.Alignment > 1, "alignment", backend.Alignment, 1, func(r *backend.Request) { r.Group.Alignment = 0 })
	add(q.Placement != collective.AnyPlacement, "placement", backend.InPlace, 1, func(r *backend.Request) { r.Group.Placement = collective.AnyPlacement })
	add(q.InFlight > 0, "in flight", backend.InFlight, 1, func(r *backend.Request) { r.Group.InFlight = q.InFlight + 1 })
	if !q.Deterministic {
		all = append(all, s.determinism())
	}
	add(len(q.Platforms) > 0, "platform", backend.Platform, 1, func(r *backend.Request) { r.Group.Platform = "none/none" })
	for i, l := range q.Libraries {
		add(true, "library "+l.Name, backend.LibMissing, 1, func(r *backend.Request) {
			r.Group.Ranks[0].Libraries = slices.Delete(slices.Clone(r.Group.Ranks[0].Libraries), i, i+1)
		})
		add(l.Version != "", "version of library "+l.Name, backend.Version, 1, func(r *backend.Request) {
			r.Group.Ranks[0].Libraries = slices.Clone(r.Group.Ranks[0].Libraries)
			r.Group.Ranks[0].Libraries[i].Version = "0"
		})
	}
	return all
}

// determinism is asked for in a group and class for which the order of addition matters.
func (s *suite) determinism() violation {
	return violation{"determinism", backend.Determinism, 1, false, func(r *backend.Request) {
		if n := r.Group.WorldSize(); r.Class.AnyOrder(n) {
			r.Group, r.Class.DataType, r.Class.Op = s.group(max(n, 3)), collective.Float32, collective.Sum
		}
		r.Group.Deterministic = true
	}}
}

func (s *suite) gpuViolations() []violation {
	q := s.info.Requirements
	var all []violation
	add := func(applies bool, what string, code backend.Code, ranks int, breakIt func(*backend.Request)) {
		if applies {
			all = append(all, violation{what, code, ranks, true, breakIt})
		}
	}
	slow := func(r *backend.Request, class topology.Class) { r.Group.Links[0][1] = topology.Link{Class: class} }
	unlinked, found := other(q.Links, []topology.Class{topology.SYS, topology.NODE, topology.PHB, topology.PXB, topology.PIX, topology.NVLink, topology.XGMI})
	add(found, "link", backend.LinkNotFull, 2, func(r *backend.Request) { slow(r, unlinked) })
	add(q.Scope == backend.OneClique && len(q.Links) == 0, "NVLink clique", backend.ScopeCode, 2, func(r *backend.Request) { slow(r, topology.SYS) })
	add(q.P2P == topology.P2PReported || q.P2P == topology.P2PVerified, "peer-to-peer access", backend.P2PUnreported, 2, func(r *backend.Request) { r.Group.P2P = topology.P2PNone })
	add(q.Multicast, "multicast", backend.NoMulticast, 1, func(r *backend.Request) { r.Group.Multicast = topology.No })
	add(q.Driver != "", "driver", backend.Version, 1, func(r *backend.Request) { r.Group.Ranks[0].Driver = "0.0.1" })
	add(len(q.Capabilities) > 0, "compute capability", backend.Arch, 1, func(r *backend.Request) {
		d := *r.Group.Ranks[0].Device
		d.Capability = "0.1"
		r.Group.Ranks[0].Device = &d
	})
	return all
}

// other is a value that is not advertised; ok is false if nothing is required or everything allowed.
func other[T comparable](advertised, all []T) (v T, ok bool) {
	if len(advertised) == 0 {
		return v, false
	}
	return lo.Find(all, func(v T) bool { return !slices.Contains(advertised, v) })
}

// clone copies what a violation or a backend might change in place.
func clone(g collective.Group) collective.Group {
	g.Ranks = slices.Clone(g.Ranks)
	g.Links = lo.Map(g.Links, func(row []topology.Link, _ int) []topology.Link { return slices.Clone(row) })
	return g
}

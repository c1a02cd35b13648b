package conformance

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/topology"
)

// hypotheticalIsAnswered: a question about another machine gets a valid answer, from the facts given. A schedule has
// no other facts, so its answer is the same.
func (s *suite) hypotheticalIsAnswered() error {
	for _, req := range s.requests() {
		real, err := s.ask(req)
		if err != nil {
			return err
		}
		v, err := s.ask(elsewhere(req))
		if err != nil {
			return fmt.Errorf("hypothetical: %w", err)
		}
		if s.info.Kind == plan.ScheduleKind && !reflect.DeepEqual(v, real) {
			return fmt.Errorf("%s: the verdict is %q, but %q for a machine that is not this one", describe(req), real, v)
		}
	}
	return nil
}

// elsewhere is the request for a machine that is not this one.
func elsewhere(req backend.Request) backend.Request {
	req.Hypothetical = true
	req.Group = clone(req.Group)
	for i := range req.Group.Ranks {
		req.Group.Ranks[i].PID, req.Group.Ranks[i].Host = 0, "elsewhere"
	}
	return req
}

// impossibleIsAnswered: what a person pastes may say little, or what cannot be.
func (s *suite) impossibleIsAnswered() error {
	memories := s.info.Requirements.Memories
	if len(memories) == 0 {
		memories = collective.Memories()
	}
	for _, m := range memories {
		for name, g := range impossible() {
			req := backend.Request{Group: g, Class: collective.Class{Memory: m}, Hypothetical: true}
			first, err := s.ask(req)
			if err != nil {
				return fmt.Errorf("a machine with %s: %w", name, err)
			}
			second, err := s.ask(req)
			if err != nil {
				return fmt.Errorf("a machine with %s, asked again: %w", name, err)
			}
			if !reflect.DeepEqual(first, second) {
				return fmt.Errorf("a machine with %s: the verdict is %q, asked again %q", name, first, second)
			}
		}
	}
	return nil
}

// impossible are groups of machines of which nothing is known, or which cannot be.
func impossible() map[string]collective.Group {
	gpus := func(n int, d topology.Device) collective.Group {
		g := collective.HostGroup("backendtest-impossible", n)
		for i := range g.Ranks {
			own := d
			own.Index = i
			g.Ranks[i].Device = &own
			for j := range g.Links[i] {
				g.Links[i][j] = topology.Link{}
			}
		}
		return g
	}
	hosts := collective.HostGroup("backendtest-impossible", 3)
	for i := range hosts.Ranks {
		hosts.Ranks[i].Host = fmt.Sprintf("host%d", i)
	}
	crowd := collective.HostGroup("backendtest-impossible", 300)
	crowd.Cores, crowd.InFlight, crowd.Alignment = 1, 1000, 1<<20
	odd := gpus(5, topology.Device{Vendor: "nobody", Capability: "99.9", Name: "none", PCIBusID: "ffff:ff:1f.7"})
	odd.P2P, odd.Multicast, odd.Platform = topology.P2PFailed, topology.Yes, "plan9/mips"
	odd.Links = slices.Clone(odd.Links)
	odd.Links[0] = slices.Clone(odd.Links[0])
	odd.Links[0][1] = topology.Link{Class: topology.NVLink}
	return map[string]collective.Group{
		"GPUs of which nothing is known": gpus(8, topology.Device{}), "GPUs that do not exist": odd, "three hosts": hosts,
		"300 ranks on one core": crowd, "one rank": collective.HostGroup("backendtest-impossible", 1),
	}
}

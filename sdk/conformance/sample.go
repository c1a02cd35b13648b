package conformance

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/topology"
)

// worlds are advertised world sizes worth trying, ascending: some of those up to 16, or the least if all are larger.
func (s *suite) worlds() []int {
	some := lo.Filter([]int{1, 2, 3, 4, 5, 8, 16}, func(n, _ int) bool { return s.serves(n) })
	if len(some) > 0 {
		return some
	}
	least, _ := lo.Find(lo.RangeFrom(1, plan.MaxWorld), s.serves)
	return lo.Compact([]int{least})
}

// serves reports whether a world size is advertised.
func (s *suite) serves(world int) bool {
	spans := s.info.Requirements.WorldSizes
	return len(spans) == 0 || lo.SomeBy(spans, func(p backend.Span) bool { return p.Min <= world && world <= p.Max })
}

// classes are all request classes whose memory, type, op and mode are advertised; registered ones only for a backend that
// requires them, since to the others they are nothing special.
func (s *suite) classes() []collective.Class {
	q := s.info.Requirements
	return lo.FilterMap(lo.Range(collective.NumClasses), func(i, _ int) (collective.Class, bool) {
		c := collective.ClassAt(i)
		return c, c.Validate() == nil && c.Registered == q.Registered && allows(q.Memories, c.Memory) && allows(q.DataTypes, c.DataType) &&
			allows(q.Ops, c.Op) && allows(q.Modes, backend.Mode(c.Mode()))
	})
}

func allows[T comparable](advertised []T, v T) bool {
	return len(advertised) == 0 || slices.Contains(advertised, v)
}

// requests are questions about every sampled world size and advertised class whose facts meet the requirements, as far
// as the byte windows have an entry for them.
func (s *suite) requests() []backend.Request {
	var all []backend.Request
	for _, world := range s.worlds() {
		all = append(all, s.requestsOf(world)...)
	}
	return all
}

// everyWorld are requests, and one for each other advertised world size that is looked at.
func (s *suite) everyWorld() []backend.Request {
	all, sampled := s.requests(), s.worlds()
	for _, world := range s.advertisedWorlds() {
		if of := s.requestsOf(world); !slices.Contains(sampled, world) && len(of) > 0 {
			all = append(all, of[0])
		}
	}
	return all
}

// advertisedWorlds are all advertised world sizes up to 32, some of those that are larger, and the largest that a plan can have.
func (s *suite) advertisedWorlds() []int {
	const every = 32
	all := lo.Filter(lo.RangeFrom(1, plan.MaxWorld), func(n, _ int) bool { return s.serves(n) })
	return lo.Filter(all, func(n, i int) bool { return n <= every || n&(n-1) == 0 || n%50 == 0 || i == len(all)-1 })
}

func (s *suite) requestsOf(world int) []backend.Request {
	group := s.group(world)
	return lo.FilterMap(s.classes(), func(c collective.Class, _ int) (backend.Request, bool) {
		req := backend.Request{Group: group, Class: c}
		return req, s.info.Requirements.Check(req).Kind == backend.Accept
	})
}

// group is ranks whose facts are what the backend asks for.
func (s *suite) group(world int) collective.Group {
	q := s.info.Requirements
	g := collective.HostGroup(fmt.Sprintf("backendtest-%d", world), world)
	g.Platform = lo.FirstOr(q.Platforms, "linux/amd64")
	g.Alignment, g.Placement, g.Deterministic = q.Alignment, q.Placement, q.Deterministic
	g.Cores = world
	libraries := lo.Map(q.Libraries, func(l collective.Library, _ int) collective.Library {
		return collective.Library{Name: l.Name, Path: "/usr/lib/lib" + l.Name + ".so", Version: cmp.Or(l.Version, "1.0")}
	})
	for i := range g.Ranks {
		g.Ranks[i] = collective.Rank{PID: 1000 + i, Libraries: libraries, NUMA: fmt.Sprint(i * max(q.NUMANodes, 1) / world)}
	}
	if allows(q.Memories, collective.CUDA) {
		s.addGPUs(&g)
	}
	return g
}

func (s *suite) addGPUs(g *collective.Group) {
	q := s.info.Requirements
	keyed, _ := lo.Find(q.Windows, func(w backend.Window) bool { return w.Capability != "" })
	capability := cmp.Or(lo.FirstOrEmpty(q.Capabilities), keyed.Capability, "9.0")
	capability = strings.Replace(strings.TrimRight(capability, "+-"), ".x", ".0", 1)
	link := topology.Link{Class: lo.FirstOr(q.Links, topology.NVLink)}
	for i := range g.Ranks {
		g.Ranks[i].Driver = cmp.Or(q.Driver, "999")
		g.Ranks[i].Device = &topology.Device{
			Index: i, Name: "GPU of backendtest", Vendor: lo.FirstOr(q.Vendors, "nvidia"), Capability: capability, PCIBusID: fmt.Sprintf("0000:%02x:00.0", i+1),
		}
		for j := range g.Links[i] {
			if i != j {
				g.Links[i][j] = link
			}
		}
	}
	g.P2P, g.Multicast = topology.P2PVerified, topology.Yes
}

// accepted asks about a request and returns the ranges that are then the backend's to serve; none if it declined.
func (s *suite) accepted(req backend.Request) ([]backend.Range, error) {
	v, err := s.verdict(req)
	if errors.As(err, new(notApplicable)) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%s: Accept: %w", describe(req), err)
	}
	return common(v.Ranges, s.info.Requirements.Check(req).Ranges), nil
}

func common(a, b []backend.Range) []backend.Range {
	return lo.FlatMap(a, func(x backend.Range, _ int) []backend.Range {
		return lo.FilterMap(b, func(y backend.Range, _ int) (backend.Range, bool) { return x.Intersect(y) })
	})
}

func describe(req backend.Request) string {
	return fmt.Sprintf("%s, %s", backend.Count(req.Group.WorldSize(), "rank"), req.Class)
}

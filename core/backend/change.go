package backend

import (
	"fmt"
	"slices"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/topology"
)

func changeMemory(q Requirements, req *Request) string {
	if !lacks(q, req, "", MemoryKind) {
		return ""
	}
	req.Class.Memory = q.Memories[0]
	if req.Class.Memory == collective.Host {
		req.Class.Captured = false
	}
	return fmt.Sprintf("the buffers were in %s memory", list(q.Memories))
}

func changeCall(q Requirements, req *Request) string {
	var all []string
	if lacks(q, req, "", OpCode) {
		req.Class.Op = q.Ops[0]
		all = append(all, "the op were "+orList(q.Ops))
	}
	if lacks(q, req, "", CaptureState) {
		req.Class.Captured = !req.Class.Captured
		all = append(all, "the calls were "+req.Class.Mode())
	}
	if lacks(q, req, "", DType) {
		types := lo.Filter(collective.DataTypes(), func(d collective.DataType, _ int) bool {
			trial := copyRequest(*req)
			trial.Class.DataType = d
			return !lacks(q, &trial, "", DType)
		})
		if len(types) > 0 {
			req.Class.DataType = types[0]
			all = append(all, "the type were "+orList(types))
		}
	}
	return strings.Join(all, " and ")
}

func changePlatform(q Requirements, req *Request) string {
	var all []string
	if lacks(q, req, "platform", Platform) && len(q.Platforms) > 0 && !slices.Contains(q.Platforms, req.Group.Platform) {
		req.Group.Platform = q.Platforms[0]
		all = append(all, "the platform were "+orList(q.Platforms))
	}
	if len(q.Vendors) > 0 && lacks(q, req, "vendor", Platform) {
		eachDevice(req, func(d *topology.Device) { d.Vendor = q.Vendors[0] })
		all = append(all, "the GPUs were of "+orList(q.Vendors))
	}
	return strings.Join(all, " and ")
}

func changeHosts(q Requirements, req *Request) string {
	if !lacks(q, req, "NVLink fabric", MultiHost) {
		return ""
	}
	phrase := "all ranks were on one host"
	if q.Scope == OneFabric {
		phrase += " (or, if that were established, in one NVLink fabric)"
	}
	for i := range req.Group.Ranks {
		req.Group.Ranks[i].Host = ""
	}
	return phrase
}

func changeNodes(q Requirements, req *Request) string {
	if !lacks(q, req, "NUMA node", NUMACode) {
		return ""
	}
	for i := range req.Group.Ranks {
		req.Group.Ranks[i].NUMA = fmt.Sprint(i % q.NUMANodes)
	}
	return fmt.Sprintf("the ranks were bound to %d or more NUMA nodes, each to one", q.NUMANodes)
}

func changeLinks(q Requirements, req *Request) string {
	if !lacks(q, req, "link of a pair", LinkNotFull, ScopeCode) {
		return ""
	}
	allowed := q.Links
	if len(allowed) == 0 { // the windows are of other links
		allowed = lo.Uniq(lo.FilterMap(q.Windows, func(w Window, _ int) (topology.Class, bool) { return w.Link, w.Link != topology.Unknown }))
	}
	if q.Scope == OneClique {
		allowed = []topology.Class{topology.NVLink}
	}
	if len(allowed) == 0 {
		return ""
	}
	n := req.Group.WorldSize()
	req.Group.Links = make([][]topology.Link, n)
	for a := range n {
		req.Group.Links[a] = make([]topology.Link, n)
		for b := range n {
			if a != b {
				req.Group.Links[a][b] = topology.Link{Class: allowed[0]}
			}
		}
	}
	return "every pair were linked by " + orList(lo.Map(allowed, func(c topology.Class, _ int) string { return c.Words() }))
}

func changeP2P(q Requirements, req *Request) string {
	if !lacks(q, req, "peer-to-peer", P2PUnreported, P2PVerifyFailed) {
		return ""
	}
	req.Group.P2PDetail = ""
	if q.P2P == P2PAssumed {
		req.Group.P2P = topology.P2PReported
		return "there were peer-to-peer access"
	}
	req.Group.P2P = q.P2P
	return fmt.Sprintf("P2P were %s", q.P2P)
}

func changeMulticast(q Requirements, req *Request) string {
	if !lacks(q, req, "multicast", NoMulticast) {
		return ""
	}
	req.Group.Multicast = topology.Yes
	return "there were NVLink multicast"
}

func changeDevices(q Requirements, req *Request) string {
	var all []string
	if lacks(q, req, "compute capability", Arch) {
		wanted := q.Capabilities
		if len(wanted) == 0 {
			wanted = lo.Uniq(lo.FilterMap(q.Windows, func(w Window, _ int) (string, bool) { return w.Capability, w.Capability != "" }))
		}
		if len(wanted) > 0 {
			eachDevice(req, func(d *topology.Device) { d.Capability = example(wanted[0]) })
			all = append(all, "the compute capability were "+orList(wanted))
		}
	}
	if q.Driver != "" && lacks(q, req, "driver", Version) {
		for i := range req.Group.Ranks {
			req.Group.Ranks[i].Driver = q.Driver
		}
		all = append(all, "the driver were "+q.Driver+" or newer")
	}
	return strings.Join(all, " and ")
}

func changeLibraries(q Requirements, req *Request) string {
	phrases := lo.Map(q.Libraries, func(l collective.Library, _ int) string {
		return strings.TrimSpace(fmt.Sprintf("the ranks loaded %s %s", l.Name, l.Version)) + lo.Ternary(l.Version == "", "", " or newer")
	})
	before := len(q.reasons(*req))
	for i := range req.Group.Ranks {
		req.Group.Ranks[i].Libraries = q.Libraries
	}
	if len(q.reasons(*req)) == before {
		return ""
	}
	return strings.Join(phrases, " and ")
}

func changePromises(q Requirements, req *Request) string {
	var all []string
	if lacks(q, req, "", Alignment) && q.Alignment > 1 {
		req.Group.Alignment = q.Alignment
		all = append(all, fmt.Sprintf("the group promised buffers aligned to %d B", q.Alignment))
	}
	if lacks(q, req, "", InPlace) {
		req.Group.Placement = q.Placement
		all = append(all, fmt.Sprintf("the group promised %s calls only", q.Placement))
	}
	if lacks(q, req, "", InFlight) {
		req.Group.InFlight = q.InFlight
		all = append(all, fmt.Sprintf("at most %d calls were in flight", q.InFlight))
	}
	if lacks(q, req, "", Determinism) {
		req.Group.Deterministic = false
		all = append(all, "the group did not ask for the same bits in every run")
	}
	return strings.Join(all, " and ")
}

// changeRanks comes last: with the rest changed, it tries which numbers of ranks would do.
func changeRanks(q Requirements, req *Request) string {
	if !lacks(q, req, "", WorldSize) {
		return ""
	}
	fits := fitting(q, *req)
	if len(fits) == 0 {
		return ""
	}
	*req = resized(*req, fits[0].Min)
	unit := lo.Ternary(len(fits) == 1 && fits[0].Max == 1, " rank", " ranks")
	return "the group had " + orList(lo.Map(fits, func(s Span, _ int) string { return spans([]Span{s}) })) + unit
}

// fitting are the numbers of ranks that are allowed and accepted, ascending. Of a wide span only the first is tried.
func fitting(q Requirements, req Request) []Span {
	const wide = 32
	allowed := q.WorldSizes
	if len(allowed) == 0 {
		allowed = lo.Uniq(lo.Map(q.Windows, func(w Window, _ int) Span { return w.WorldSizes }))
	}
	var fits []Span
	for _, s := range allowed {
		accepts := func(n int) bool { return n > 0 && q.Check(resized(req, n)).Kind == Accept }
		if s.Max-s.Min > wide {
			if accepts(s.Min) {
				fits = append(fits, s)
			}
			continue
		}
		run := lo.Filter(lo.RangeFrom(s.Min, s.Max-s.Min+1), func(n, _ int) bool { return accepts(n) })
		if len(run) > 2 && len(run) == s.Max-s.Min+1 {
			fits = append(fits, s)
			continue
		}
		fits = append(fits, Exactly(run...)...)
	}
	slices.SortFunc(fits, func(a, b Span) int { return a.Min - b.Min })
	return lo.Uniq(fits)
}

// resized is the request for n ranks like those of the group, linked as the first two are.
func resized(req Request, n int) Request {
	r := copyRequest(req)
	old := req.Group
	r.Group.Ranks = make([]collective.Rank, n)
	r.Group.Links = make([][]topology.Link, n)
	for a := range n {
		r.Group.Ranks[a] = old.Ranks[a%old.WorldSize()]
		r.Group.Links[a] = make([]topology.Link, n)
		for b := range n {
			if a != b {
				r.Group.Links[a][b] = topology.At(old.Links, a, b)
			}
			if a != b && (a >= old.WorldSize() || b >= old.WorldSize()) {
				r.Group.Links[a][b] = topology.At(old.Links, 0, 1)
			}
		}
	}
	return r
}

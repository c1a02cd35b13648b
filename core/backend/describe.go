package backend

import (
	"fmt"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/topology"
)

// Describe lists the requirements for people, one phrase each; "nothing" if there are none.
func (q Requirements) Describe() []string {
	var all []string
	say := func(needed bool, format string, args ...any) {
		if needed {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	say(len(q.Memories) > 0, "memory %s", list(q.Memories))
	say(len(q.WorldSizes) > 0, "%s ranks", spans(q.WorldSizes))
	say(len(q.DataTypes) > 0 && len(q.DataTypes) < collective.NumDataTypes, "types %s", list(q.DataTypes))
	say(len(q.Ops) > 0 && len(q.Ops) < collective.NumOps, "ops %s", list(q.Ops))
	say(q.Scope != AnyScope, "scope %s", q.Scope)
	say(q.NUMANodes > 1, "ranks bound to %d or more NUMA nodes", q.NUMANodes)
	say(len(q.Links) > 0 && q.LinksFrom <= 2, "links %s on every pair", list(q.Links))
	say(len(q.Links) > 0 && q.LinksFrom > 2, "links %s on every pair of %d or more ranks", list(q.Links), q.LinksFrom)
	say(q.P2P != "", "P2P %s", q.P2P)
	say(q.Multicast, "NVLink multicast")
	say(len(q.Vendors) > 0, "GPUs of %s", strings.Join(q.Vendors, " or "))
	say(len(q.Capabilities) > 0, "compute capability %s", strings.Join(q.Capabilities, ", "))
	say(len(q.Platforms) > 0, "platform %s", strings.Join(q.Platforms, ", "))
	say(q.Driver != "", "driver %s or newer", q.Driver)
	for _, l := range q.Libraries {
		say(true, "library %s", strings.TrimSpace(l.Name+" "+l.Version))
	}
	say(len(q.Windows) > 0, "sizes %s", strings.Join(lo.Map(q.Windows, func(w Window, _ int) string { return w.describe() }), ", "))
	say(q.Multiple > 1, "multiples of %d B", q.Multiple)
	say(q.Alignment > 0, "buffers aligned to %d B", q.Alignment)
	say(q.Placement != collective.AnyPlacement, "placement %s", q.Placement)
	say(q.Registered, "registered memory")
	say(len(q.Modes) == 1, "%s calls only", list(q.Modes))
	say(q.InFlight > 0, "at most %d calls in flight", q.InFlight)
	if len(all) == 0 {
		all = []string{"nothing"}
	}
	return all
}

func (w Window) describe() string {
	var keys []string
	if w.Capability != "" {
		keys = append(keys, w.Capability)
	}
	if w.Link != topology.Unknown {
		keys = append(keys, w.Link.Words())
	}
	if (w.WorldSizes != Span{}) {
		keys = append(keys, spans([]Span{w.WorldSizes})+" ranks")
	}
	if w.DataType != nil {
		keys = append(keys, w.DataType.String())
	}
	if w.Mode != "" {
		keys = append(keys, string(w.Mode))
	}
	if w.Unmeasured {
		keys = append(keys, "unmeasured")
	}
	s := w.Range.String()
	if len(keys) > 0 {
		s += " (" + strings.Join(keys, ", ") + ")"
	}
	return s
}

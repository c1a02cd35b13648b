package pluginv1

import (
	"math"
	"strings"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/topology"
)

// FromClass is the message of a request class.
func FromClass(c collective.Class) *Class {
	return &Class{Memory: c.Memory.String(), DataType: c.DataType.String(), Op: c.Op.String(), Captured: c.Captured, Registered: c.Registered}
}

// FromGroup is the message of a group's facts.
func FromGroup(g collective.Group) *Group {
	return &Group{
		Id:            g.ID,
		Ranks:         each(g.Ranks, FromRank),
		Links:         each(g.Links, fromLinkRow),
		P2P:           string(g.P2P),
		P2PDetail:     text(g.P2PDetail),
		Multicast:     string(g.Multicast),
		Cores:         i32(g.Cores),
		Platform:      g.Platform,
		Alignment:     i32(g.Alignment),
		Placement:     string(g.Placement),
		InFlight:      i32(g.InFlight),
		Deterministic: g.Deterministic, ShareDevices: g.ShareDevices,
	}
}

func fromLinkRow(row []topology.Link) *LinkRow {
	return &LinkRow{Links: each(row, topology.Link.String)}
}

// FromRank is the message of what a rank brought.
func FromRank(r collective.Rank) *Rank {
	m := &Rank{Pid: i32(r.PID), Host: text(r.Host), Driver: text(r.Driver), Libraries: each(r.Libraries, fromLibrary), Numa: text(r.NUMA)}
	if d := r.Device; d != nil {
		m.Device = &Device{
			Index: i32(d.Index), Uuid: text(d.UUID), PciBusId: text(d.PCIBusID), Name: text(d.Name),
			Capability: text(d.Capability), Numa: text(d.NUMA), CpuAffinity: text(d.CPUAffinity), Vendor: text(d.Vendor),
		}
	}
	return m
}

func fromLibrary(l collective.Library) *Library {
	return &Library{Name: text(l.Name), Path: text(l.Path), Version: text(l.Version)}
}

// FromVerdict is the message of a verdict.
func FromVerdict(v backend.Verdict) *Verdict {
	return &Verdict{Kind: string(v.Kind), Ranges: FromRanges(v.Ranges), Reasons: each(v.Bounded().Reasons, FromReason)}
}

// FromReason is the message of a reason.
func FromReason(r backend.Reason) *Reason {
	r = r.Bounded()
	m := &Reason{Code: text(string(r.Code)), Observed: text(r.Observed), Required: text(r.Required), Text: text(r.Text)}
	if r.Rank != backend.AnyRank {
		rank := i32(r.Rank)
		m.Rank = &rank
	}
	return m
}

// FromRanges are the messages of byte ranges.
func FromRanges(ranges []backend.Range) []*Range { return each(ranges, fromRange) }

func fromRange(r backend.Range) *Range {
	return &Range{Min: r.Min, Max: r.Max, Multiple: r.Multiple, Unmeasured: r.Unmeasured}
}

// FromInfo is the message of what a backend advertises.
func FromInfo(info backend.Info) *Backend {
	return &Backend{
		Name:         text(info.Name),
		Description:  text(info.Description),
		Kind:         string(info.Kind),
		Priority:     i32(info.Priority),
		Requirements: fromRequirements(info.Requirements),
	}
}

func fromRequirements(q backend.Requirements) *Requirements {
	return &Requirements{
		WorldSizes:    each(q.WorldSizes, fromSpan),
		Memories:      each(q.Memories, collective.Memory.String),
		DataTypes:     each(q.DataTypes, collective.DataType.String),
		Ops:           each(q.Ops, collective.Op.String),
		Scope:         string(q.Scope),
		Links:         each(q.Links, func(c topology.Class) string { return string(c) }),
		LinksFrom:     i32(q.LinksFrom),
		NumaNodes:     i32(q.NUMANodes),
		P2P:           string(q.P2P),
		Multicast:     q.Multicast,
		Vendors:       each(q.Vendors, text),
		Capabilities:  each(q.Capabilities, text),
		Platforms:     each(q.Platforms, text),
		Driver:        text(q.Driver),
		Libraries:     each(q.Libraries, fromLibrary),
		Windows:       each(q.Windows, fromWindow),
		Multiple:      q.Multiple,
		Alignment:     i32(q.Alignment),
		Placement:     string(q.Placement),
		Modes:         each(q.Modes, func(m backend.Mode) string { return string(m) }),
		InFlight:      i32(q.InFlight),
		Deterministic: q.Deterministic, Registered: q.Registered, Order: string(q.Order),
	}
}

func fromSpan(s backend.Span) *Span { return &Span{Min: i32(s.Min), Max: i32(s.Max)} }

func fromWindow(w backend.Window) *Window {
	m := &Window{
		Capability: text(w.Capability), Mode: string(w.Mode), Range: fromRange(w.Range), Unmeasured: w.Unmeasured,
		Link: string(w.Link),
	}
	if (w.WorldSizes != backend.Span{}) {
		m.WorldSizes = fromSpan(w.WorldSizes)
	}
	if w.DataType != nil {
		m.DataType = w.DataType.String()
	}
	return m
}

// each is nil for an empty slice, so that what was not set stays not set.
func each[T, R any](all []T, f func(T) R) []R {
	if len(all) == 0 {
		return nil
	}
	out := make([]R, len(all))
	for i, v := range all {
		out[i] = f(v)
	}
	return out
}

// i32 keeps a number that is too large too large, rather than wrapping it into a plausible one.
func i32(v int) int32 { return int32(min(max(v, math.MinInt32), math.MaxInt32)) }

// text makes a string that a message may carry: paths and the output of other programs need not be UTF-8.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

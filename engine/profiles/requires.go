package profiles

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/topology"
)

// requires is backend.Requirements as the files spell them.
type requires struct {
	Ranks        []span
	Memories     []memory
	DataTypes    []dataType `yaml:"data_types"`
	Scope        backend.Scope
	Links        []topology.Class
	LinksFrom    int `yaml:"links_from"`
	P2P          topology.P2P
	Multicast    bool
	Vendors      []string
	Capabilities []string
	Platforms    []string
	Libraries    map[string]string // name and oldest version
	Modes        []backend.Mode
	Multiple     int64
	Limit        string // most bytes, whatever the windows say
	Windows      []window
}

// window is byte counts for some groups. Bytes holds for both modes, Captured and Eager for one.
type window struct {
	On         []string // compute capabilities; none: all
	Ranks      span
	DataType   *dataType `yaml:"data_type"`
	Bytes      string
	Captured   string
	Eager      string
	Unmeasured bool
}

// requirements are for messages of tokens of so many bytes; 0 if not known, and then limits in tokens are left out.
func (q requires) requirements(windows []window, token int64) (backend.Requirements, error) {
	out := backend.Requirements{
		Scope: q.Scope, Links: q.Links, LinksFrom: q.LinksFrom, P2P: q.P2P, Multicast: q.Multicast, Vendors: q.Vendors,
		Capabilities: q.Capabilities, Platforms: q.Platforms, Modes: q.Modes, Multiple: q.Multiple,
	}
	for _, s := range q.Ranks {
		out.WorldSizes = append(out.WorldSizes, backend.Span(s))
	}
	for _, m := range q.Memories {
		out.Memories = append(out.Memories, collective.Memory(m))
	}
	for _, d := range q.DataTypes {
		out.DataTypes = append(out.DataTypes, collective.DataType(d))
	}
	for name, version := range q.Libraries {
		out.Libraries = append(out.Libraries, collective.Library{Name: name, Version: version})
	}
	limit := backend.Range{Min: 1, Max: backend.NoLimit}
	if q.Limit != "" {
		var err error
		if limit, err = parseRange(".."+q.Limit, token); err != nil {
			return out, err
		}
	}
	for _, w := range windows {
		all, err := w.windows(limit, token)
		if err != nil {
			return out, err
		}
		out.Windows = append(out.Windows, all...)
	}
	return out, nil
}

// windows are one for every capability and mode named.
func (w window) windows(limit backend.Range, token int64) ([]backend.Window, error) {
	on := w.On
	if len(on) == 0 {
		on = []string{""}
	}
	var all []backend.Window
	for _, mode := range []struct {
		mode  backend.Mode
		bytes string
	}{{"", w.Bytes}, {backend.Captured, w.Captured}, {backend.Eager, w.Eager}} {
		if mode.bytes == "" {
			continue
		}
		r, err := parseRange(mode.bytes, token)
		if err != nil {
			return nil, err
		}
		r, ok := r.Intersect(limit)
		if !ok {
			return nil, fmt.Errorf("window %q is beyond the limit", mode.bytes)
		}
		for _, capability := range on {
			x := backend.Window{Capability: capability, WorldSizes: backend.Span(w.Ranks), Mode: mode.mode, Range: r, Unmeasured: w.Unmeasured}
			if w.DataType != nil {
				d := collective.DataType(*w.DataType)
				x.DataType = &d
			}
			all = append(all, x)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("a window without bytes")
	}
	return all, nil
}

// parseRange reads "all", "..16KiB", "512KiB..", "8MiB..32MiB" (both included), "<8MiB" and "..2048 tokens".
func parseRange(text string, token int64) (backend.Range, error) {
	r := backend.Range{Min: 1, Max: backend.NoLimit}
	if text == "all" {
		return r, nil
	}
	if below, ok := strings.CutPrefix(text, "<"); ok {
		n, err := parseBytes(below, token)
		r.Max = n - 1
		return r, err
	}
	least, most, ok := strings.Cut(text, "..")
	if !ok {
		return r, fmt.Errorf("bytes %q, want such as ..16KiB, 512KiB.., 8MiB..32MiB or <8MiB", text)
	}
	var err error
	if least != "" {
		if r.Min, err = parseBytes(least, token); err != nil {
			return r, err
		}
	}
	if most != "" {
		if r.Max, err = parseBytes(most, token); err != nil {
			return r, err
		}
	}
	return r, r.Validate()
}

const tokens = " tokens"

// parseBytes reads "16KiB" or "2048 tokens"; tokens of unknown size have no limit.
func parseBytes(text string, token int64) (int64, error) {
	if n, ok := strings.CutSuffix(text, tokens); ok {
		count, err := strconv.ParseInt(n, 10, 32)
		if err != nil {
			return 0, fmt.Errorf("bytes %q: %w", text, err)
		}
		if token == 0 {
			return math.MaxInt64, nil
		}
		return count * token, nil
	}
	for _, unit := range []struct {
		name  string
		shift int
	}{{"GiB", 30}, {"MiB", 20}, {"KiB", 10}, {"B", 0}} {
		if digits, ok := strings.CutSuffix(text, unit.name); ok {
			n, err := strconv.ParseInt(digits, 10, 32)
			return n << unit.shift, err
		}
	}
	return 0, fmt.Errorf("bytes %q without a unit", text)
}

// inTokens reports whether a window's limit is counted in tokens.
func (q requires) inTokens() bool {
	for _, w := range q.Windows {
		if strings.Contains(w.Bytes+w.Captured+w.Eager, tokens) {
			return true
		}
	}
	return false
}

// span reads "8", "2-16" or "9+".
type span backend.Span

// UnmarshalText reads a span.
func (s *span) UnmarshalText(text []byte) error {
	least, most, isRange := strings.Cut(string(text), "-")
	if open, ok := strings.CutSuffix(least, "+"); ok {
		least, most, isRange = open, strconv.Itoa(math.MaxInt32), true
	}
	if !isRange {
		most = least
	}
	a, err := strconv.Atoi(least)
	b, err2 := strconv.Atoi(most)
	if err != nil || err2 != nil || a < 1 || b < a {
		return fmt.Errorf("ranks %q, want such as 8, 2-16 or 9+", text)
	}
	*s = span{a, b}
	return nil
}

func (s span) contains(n int) bool { return s == span{} || backend.Span(s).Contains(n) }

type (
	memory   collective.Memory
	dataType collective.DataType
)

// UnmarshalText reads a memory kind.
func (m *memory) UnmarshalText(text []byte) error {
	return (*collective.Memory)(m).UnmarshalText(text)
}

// UnmarshalText reads a data type.
func (d *dataType) UnmarshalText(text []byte) error {
	return (*collective.DataType)(d).UnmarshalText(text)
}

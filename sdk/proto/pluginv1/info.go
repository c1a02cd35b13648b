package pluginv1

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plain"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/core/topology"
)

// ToInfo reads what a backend advertises. The error names the backend and the field.
func ToInfo(m *Backend) (backend.Info, error) {
	if m == nil {
		return backend.Info{}, errors.New("missing backend")
	}
	info := backend.Info{
		Name: m.GetName(), Description: plain.Line(m.GetDescription()), Kind: plan.Kind(m.GetKind()), Priority: int(m.GetPriority()),
	}
	if err := CheckName(info.Name); err != nil {
		return backend.Info{}, fmt.Errorf("backend %w", err)
	}
	if n := len(m.GetDescription()); n > MaxDescription {
		return backend.Info{}, fmt.Errorf("backend %s: description of %d bytes, at most %d", info.Name, n, MaxDescription)
	}
	if err := oneOf("kind", info.Kind, plan.Kinds()...); err != nil {
		return backend.Info{}, fmt.Errorf("backend %s: %w", info.Name, err)
	}
	var err error
	if info.Requirements, err = toRequirements(m.GetRequirements()); err != nil {
		return backend.Info{}, fmt.Errorf("backend %s: requirements: %w", info.Name, err)
	}
	return info, nil
}

// CheckName says what is wrong with the name of a plugin or backend: it is made of lower-case letters, digits and '-'.
func CheckName(name string) error {
	if name == "" {
		return errors.New("without a name")
	}
	if len(name) > MaxName {
		return fmt.Errorf("name of %d bytes (%q), at most %d", len(name), plain.Cut(name, 40), MaxName)
	}
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || strings.Trim(name, "-") != name {
		return fmt.Errorf("name %q: use lower-case letters, digits and '-' between them", name)
	}
	return nil
}

func toRequirements(m *Requirements) (backend.Requirements, error) {
	if err := checkBounds(m); err != nil {
		return backend.Requirements{}, err
	}
	q := backend.Requirements{
		Scope: backend.Scope(m.GetScope()), P2P: topology.P2P(m.GetP2P()), Multicast: m.GetMulticast(),
		LinksFrom: int(m.GetLinksFrom()), Vendors: m.GetVendors(), Capabilities: m.GetCapabilities(), Platforms: m.GetPlatforms(), Driver: m.GetDriver(),
		Multiple: m.GetMultiple(), Alignment: int(m.GetAlignment()), Placement: collective.Placement(m.GetPlacement()),
		InFlight: int(m.GetInFlight()), Deterministic: m.GetDeterministic(), Registered: m.GetRegistered(),
		NUMANodes: int(m.GetNumaNodes()), Order: backend.Order(m.GetOrder()),
	}
	var errs [8]error
	q.WorldSizes, errs[0] = eachErr("world_sizes", m.GetWorldSizes(), toSpan)
	q.Memories, errs[1] = parse[collective.Memory](m.GetMemories())
	q.DataTypes, errs[2] = parse[collective.DataType](m.GetDataTypes())
	q.Ops, errs[3] = parse[collective.Op](m.GetOps())
	q.Links, errs[4] = eachErr("links", m.GetLinks(), toLinkClass)
	q.Libraries, errs[5] = eachErr("libraries", m.GetLibraries(), toLibrary)
	q.Windows, errs[6] = eachErr("windows", m.GetWindows(), toWindow)
	q.Modes, errs[7] = eachErr("modes", m.GetModes(), toMode)
	err := errors.Join(append(errs[:],
		oneOf("scope", q.Scope, backend.AnyScope, backend.OneHost, backend.OneClique, backend.OneFabric),
		oneOf("p2p", q.P2P, backend.P2PAssumed, topology.P2PUnknown, topology.P2PNone, topology.P2PReported, topology.P2PVerified),
		oneOf("placement", q.Placement, collective.AnyPlacement, collective.InPlace, collective.OutOfPlace),
		notNegative("multiple", q.Multiple), notNegative("alignment", q.Alignment), notNegative("in_flight", q.InFlight),
		notNegative("links_from", q.LinksFrom), notNegative("numa_nodes", q.NUMANodes),
	)...)
	if err != nil {
		return backend.Requirements{}, oneLine(err)
	}
	return q, nil
}

func toSpan(m *Span) (backend.Span, error) {
	s := backend.Span{Min: int(m.GetMin()), Max: int(m.GetMax())}
	if s.Min < 1 || s.Max < s.Min {
		return s, fmt.Errorf("impossible span %d to %d", s.Min, s.Max)
	}
	return s, nil
}

// toLinkClass accepts the classes alone: a number of NVLinks is not something that a backend can require.
func toLinkClass(name string) (topology.Class, error) {
	var l topology.Link
	if err := l.UnmarshalText([]byte(name)); err != nil {
		return "", err
	}
	if l.Class == topology.Unknown || l.Count != 0 {
		return "", fmt.Errorf("link class %q cannot be required", name)
	}
	return l.Class, nil
}

func toWindow(m *Window) (backend.Window, error) {
	r, err := toRange(m.GetRange())
	if err != nil {
		return backend.Window{}, err
	}
	w := backend.Window{
		Capability: m.GetCapability(), Mode: backend.Mode(m.GetMode()), Range: r, Unmeasured: m.GetUnmeasured(),
	}
	if m.GetWorldSizes() != nil {
		if w.WorldSizes, err = toSpan(m.GetWorldSizes()); err != nil {
			return backend.Window{}, err
		}
	}
	if name := m.GetLink(); name != "" {
		if w.Link, err = toLinkClass(name); err != nil {
			return backend.Window{}, err
		}
	}
	if name := m.GetDataType(); name != "" {
		w.DataType = new(collective.DataType)
		if err := w.DataType.UnmarshalText([]byte(name)); err != nil {
			return backend.Window{}, err
		}
	}
	return w, oneOf("mode", w.Mode, "", backend.Eager, backend.Captured)
}

func toMode(name string) (backend.Mode, error) {
	m := backend.Mode(name)
	return m, oneOf("mode", m, backend.Eager, backend.Captured)
}

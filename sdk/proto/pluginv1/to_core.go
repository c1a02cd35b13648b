package pluginv1

import (
	"encoding"
	"errors"
	"fmt"
	"slices"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/topology"
)

// ToClass reads a request class; a missing or unknown name is an error.
func ToClass(m *Class) (collective.Class, error) {
	if m == nil {
		return collective.Class{}, errors.New("missing request class")
	}
	c := collective.Class{Captured: m.GetCaptured(), Registered: m.GetRegistered()}
	err := errors.Join(
		c.Memory.UnmarshalText([]byte(m.GetMemory())),
		c.DataType.UnmarshalText([]byte(m.GetDataType())),
		c.Op.UnmarshalText([]byte(m.GetOp())),
	)
	if err != nil {
		return collective.Class{}, fmt.Errorf("request class: %w", oneLine(err))
	}
	return c, c.Validate()
}

// ToGroup reads a group's facts; they are valid in the sense of collective.Group.Validate.
func ToGroup(m *Group) (collective.Group, error) {
	if m == nil {
		return collective.Group{}, errors.New("missing group")
	}
	g := collective.Group{
		ID: m.GetId(), P2P: topology.P2P(m.GetP2P()), P2PDetail: m.GetP2PDetail(), Multicast: topology.Answer(m.GetMulticast()),
		Cores: int(m.GetCores()), Platform: m.GetPlatform(), Alignment: int(m.GetAlignment()),
		Placement: collective.Placement(m.GetPlacement()), InFlight: int(m.GetInFlight()), Deterministic: m.GetDeterministic(),
		ShareDevices: m.GetShareDevices(),
	}
	ranks, errRanks := eachErr("rank", m.GetRanks(), ToRank)
	links, errLinks := eachErr("row", m.GetLinks(), toLinkRow)
	err := errors.Join(
		errRanks, errLinks,
		oneOf("p2p", g.P2P, topology.P2PUnknown, topology.P2PNone, topology.P2PFailed, topology.P2PReported, topology.P2PVerified),
		oneOf("multicast", g.Multicast, topology.NotKnown, topology.Yes, topology.No),
		oneOf("placement", g.Placement, collective.AnyPlacement, collective.InPlace, collective.OutOfPlace),
		notNegative("cores", g.Cores), notNegative("alignment", g.Alignment), notNegative("in_flight", g.InFlight),
	)
	if err != nil {
		return collective.Group{}, fmt.Errorf("group %q: %w", m.GetId(), oneLine(err))
	}
	g.Ranks, g.Links = ranks, links
	if err := g.Validate(); err != nil {
		return collective.Group{}, err
	}
	return g, nil
}

func toLinkRow(m *LinkRow) ([]topology.Link, error) {
	return eachErr("link", m.GetLinks(), func(s string) (l topology.Link, err error) {
		err = l.UnmarshalText([]byte(s))
		return l, err
	})
}

// ToRank reads what a rank brought.
func ToRank(m *Rank) (collective.Rank, error) {
	if m == nil {
		return collective.Rank{}, errors.New("missing facts of a rank")
	}
	if err := checkFacts(m); err != nil {
		return collective.Rank{}, err
	}
	r := collective.Rank{PID: int(m.GetPid()), Host: m.GetHost(), Driver: m.GetDriver(), NUMA: m.GetNuma()}
	if d := m.GetDevice(); d != nil {
		r.Device = &topology.Device{
			Index: int(d.GetIndex()), UUID: d.GetUuid(), PCIBusID: d.GetPciBusId(), Name: d.GetName(),
			Capability: d.GetCapability(), NUMA: d.GetNuma(), CPUAffinity: d.GetCpuAffinity(), Vendor: d.GetVendor(),
		}
		if err := notNegative("device index", r.Device.Index); err != nil {
			return collective.Rank{}, err
		}
	}
	if err := notNegative("pid", r.PID); err != nil {
		return collective.Rank{}, err
	}
	var err error
	r.Libraries, err = eachErr("library", m.GetLibraries(), toLibrary)
	return r, err
}

func toLibrary(m *Library) (collective.Library, error) {
	if m.GetName() == "" {
		return collective.Library{}, errors.New("missing name")
	}
	return collective.Library{Name: m.GetName(), Path: m.GetPath(), Version: m.GetVersion()}, nil
}

// ToVerdict reads a verdict. Its kind may be NotAsked, which a plugin must not answer but an agent reports; any other
// is valid in the sense of backend.Verdict.Validate. Its reasons are bounded.
func ToVerdict(m *Verdict) (backend.Verdict, error) {
	if m == nil {
		return backend.Verdict{}, errors.New("missing verdict")
	}
	v := backend.Verdict{Kind: backend.Kind(m.GetKind())}
	var errRanges, errReasons error
	v.Ranges, errRanges = ToRanges(m.GetRanges())
	v.Reasons, errReasons = eachErr("reason", m.GetReasons(), ToReason)
	if err := errors.Join(errRanges, errReasons); err != nil {
		return backend.Verdict{}, oneLine(err)
	}
	v = v.Bounded()
	if v.Kind != backend.NotAsked {
		if err := v.Validate(); err != nil {
			return backend.Verdict{}, err
		}
	}
	return v, nil
}

// ToReason reads a reason, bounded; a code that does not exist is an error.
func ToReason(m *Reason) (backend.Reason, error) {
	if m == nil {
		return backend.Reason{}, errors.New("missing reason")
	}
	r := backend.Reason{
		Code: backend.Code(m.GetCode()), Observed: m.GetObserved(), Required: m.GetRequired(),
		Rank: backend.AnyRank, Text: m.GetText(),
	}
	if r.Code.Meaning() == "" {
		return backend.Reason{}, fmt.Errorf("unknown reason code %q", r.Code)
	}
	if m.Rank != nil {
		r.Rank = int(m.GetRank())
		if err := notNegative("rank", r.Rank); err != nil {
			return backend.Reason{}, err
		}
	}
	return r.Bounded(), nil
}

// ToRanges reads byte ranges; every one is valid in the sense of backend.Range.Validate.
func ToRanges(all []*Range) ([]backend.Range, error) { return eachErr("range", all, toRange) }

func toRange(m *Range) (backend.Range, error) {
	r := backend.Range{Min: m.GetMin(), Max: m.GetMax(), Multiple: m.GetMultiple(), Unmeasured: m.GetUnmeasured()}
	return r, r.Validate()
}

// eachErr is nil for an empty slice; an error names the element.
func eachErr[T, R any](what string, all []T, f func(T) (R, error)) ([]R, error) {
	if len(all) == 0 {
		return nil, nil
	}
	out := make([]R, len(all))
	for i, v := range all {
		r, err := f(v)
		if err != nil {
			return nil, fmt.Errorf("%s %d: %w", what, i, err)
		}
		out[i] = r
	}
	return out, nil
}

// parse reads names into a type that knows its own spelling.
func parse[T any, P interface {
	*T
	encoding.TextUnmarshaler
}](names []string,
) ([]T, error) {
	return eachErr("name", names, func(name string) (v T, err error) {
		err = P(&v).UnmarshalText([]byte(name))
		return v, err
	})
}

func oneOf[T ~string](what string, v T, known ...T) error {
	if !slices.Contains(known, v) {
		return fmt.Errorf("unknown %s %q, want one of %q", what, v, known)
	}
	return nil
}

func notNegative[N int | int64](what string, n N) error {
	if n < 0 {
		return fmt.Errorf("negative %s %d", what, n)
	}
	return nil
}

// oneLine is the first of the errors that errors.Join joined: one line tells a person what to mend next.
func oneLine(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()[0]
	}
	return err
}

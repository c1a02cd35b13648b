package backend

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Code names why a backend does not serve a group.
type Code string

// The codes. What a person should do about each is in docs/reasons.md.
const (
	WorldSize        Code = "WORLD_SIZE"
	Arch             Code = "ARCH"
	Platform         Code = "PLATFORM"
	MemoryKind       Code = "MEMORY"
	LinkNotFull      Code = "LINK_NOT_FULL"
	P2PUnreported    Code = "P2P_UNREPORTED"
	P2PVerifyFailed  Code = "P2P_VERIFY_FAILED"
	NoMulticast      Code = "NO_MULTICAST"
	ScopeCode        Code = "SCOPE"
	MultiHost        Code = "MULTI_HOST"
	NUMACode         Code = "NUMA"
	DType            Code = "DTYPE"
	OpCode           Code = "OP"
	TooSmall         Code = "TOO_SMALL"
	TooLarge         Code = "TOO_LARGE"
	Alignment        Code = "ALIGNMENT"
	InPlace          Code = "IN_PLACE"
	CaptureState     Code = "CAPTURE_STATE"
	InFlight         Code = "IN_FLIGHT"
	LibMissing       Code = "LIB_MISSING"
	SymbolMissing    Code = "SYMBOL_MISSING"
	Version          Code = "VERSION"
	InitFailed       Code = "INIT_FAILED"
	SelfTestFailed   Code = "SELFTEST_FAILED"
	PeerDeclined     Code = "PEER_DECLINED"
	DisabledByUser   Code = "DISABLED_BY_USER"
	Determinism      Code = "DETERMINISM"
	ProbeUnavailable Code = "PROBE_UNAVAILABLE"
	Timeout          Code = "TIMEOUT"
	PluginCrashed    Code = "PLUGIN_CRASHED"
	PlanRejected     Code = "PLAN_REJECTED"
	Other            Code = "OTHER"
)

var codes = map[Code]string{
	WorldSize:        "the number of ranks is not one that the backend serves",
	Arch:             "the GPUs' compute capability is not one that the backend serves",
	Platform:         "the operating system, the processor or the GPUs' maker is not one that the backend serves",
	MemoryKind:       "the buffers are not in memory of a kind that the backend serves",
	LinkNotFull:      "a pair of ranks is connected by a link that the backend does not serve",
	P2PUnreported:    "the driver does not report peer-to-peer access between every pair",
	P2PVerifyFailed:  "peer-to-peer access was tried and did not carry right data between every pair",
	NoMulticast:      "the GPUs have no NVLink multicast",
	ScopeCode:        "the ranks are not all within one NVLink domain",
	MultiHost:        "the ranks are on several hosts",
	NUMACode:         "the ranks are bound to fewer NUMA nodes than the backend needs",
	DType:            "the backend does not serve the data type",
	OpCode:           "the backend does not serve the reduce op",
	TooSmall:         "the message is smaller than the backend serves",
	TooLarge:         "the message is larger than the backend serves",
	Alignment:        "the byte count or the buffers are not aligned as the backend needs",
	InPlace:          "the backend does not serve calls with this placement of source and destination",
	CaptureState:     "the backend does not serve calls in this mode (eager or captured)",
	InFlight:         "the group wants more calls in flight than the backend serves",
	LibMissing:       "a library was not found",
	SymbolMissing:    "a library lacks a function",
	Version:          "a library or driver is too old, or ranks have different versions",
	InitFailed:       "a driver or library did not start, or a rank could not prepare the plan",
	SelfTestFailed:   "the plan gave a wrong sum or did not finish when it was tried",
	PeerDeclined:     "another rank declined",
	DisabledByUser:   "the configuration disables the backend",
	Determinism:      "the group asks for the same bits in every run, which the backend does not promise, or not in one order of addition in which every size is served",
	ProbeUnavailable: "a fact that the backend needs could not be established",
	Timeout:          "the plugin did not answer in time",
	PluginCrashed:    "the plugin's process ended",
	PlanRejected:     "the plugin's plan is malformed, impossible or not proved to be right",
	Other:            "see the text",
}

// Codes lists every code, sorted.
func Codes() []Code { return slices.Sorted(maps.Keys(codes)) }

// Meaning is a sentence for people; "" for a code that does not exist.
func (c Code) Meaning() string { return codes[c] }

// AnyRank is the Rank of a reason that no single rank caused.
const AnyRank = -1

// Reason is one reason why a backend does not serve a group.
type Reason struct {
	Code     Code
	Observed string // what was found, such as "SYS"; may be ""
	Required string // what the backend needs, such as "NV"; may be ""
	Rank     int    // the rank that caused it, or AnyRank
	Text     string // further words; needed with Other
}

// Because is a reason of the whole group.
func Because(code Code, observed, required string) Reason {
	return Reason{Code: code, Observed: observed, Required: required, Rank: AnyRank}
}

func (r Reason) String() string {
	var b strings.Builder
	b.WriteString(string(r.Code))
	if r.Rank != AnyRank {
		fmt.Fprintf(&b, " on rank %d", r.Rank)
	}
	switch {
	case r.Observed != "" && r.Required != "":
		fmt.Fprintf(&b, ": %s, needs %s", r.Observed, r.Required)
	case r.Observed != "":
		fmt.Fprintf(&b, ": %s", r.Observed)
	case r.Required != "":
		fmt.Fprintf(&b, ": needs %s", r.Required)
	}
	if r.Text != "" {
		fmt.Fprintf(&b, " (%s)", r.Text)
	}
	return b.String()
}

// Fault is an error that carries the code under which it is recorded as a decline.
type Fault struct {
	Code Code
	Rank int // the rank where it happened, or AnyRank
	Err  error
}

func (f *Fault) Error() string { return f.Err.Error() }
func (f *Fault) Unwrap() error { return f.Err }

// ReasonFor turns an error met while asking or preparing a backend into a reason: the code of a Fault, TIMEOUT for a
// deadline that passed, OTHER for the rest. It is bounded.
func ReasonFor(err error) Reason {
	r := Reason{Code: Other, Rank: AnyRank, Text: err.Error()}
	var f *Fault
	switch {
	case errors.As(err, &f):
		r.Code, r.Rank = f.Code, f.Rank
	case errors.Is(err, context.DeadlineExceeded):
		r.Code = Timeout
	}
	return r.Bounded()
}

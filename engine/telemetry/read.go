package telemetry

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/samber/lo"
	"go.opentelemetry.io/otel/attribute"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/weir-project/weir/core/backend"
)

// Traced is a decision as a trace tells it.
type Traced struct {
	TraceID   string    `json:"trace_id"`
	Time      time.Time `json:"time"`
	Seconds   float64   `json:"seconds"`
	Service   string    `json:"service"`
	Group     string    `json:"group"`
	WorldSize int       `json:"world_size"`
	Link      string    `json:"link"`
	Memory    string    `json:"memory"`
	DataType  string    `json:"dtype"`
	Op        string    `json:"op"`
	Mode      string    `json:"mode"`

	Backends []string       `json:"backends"` // that serve at least one byte count
	Fallback bool           `json:"fallback"`
	Error    string         `json:"error"` // why the resolution failed; "" if it did not
	Answers  []TracedAnswer `json:"answers"`
	Faults   []TracedFault  `json:"faults"` // of plans, and of ranks that prepared or tested one
}

// TracedAnswer is what became of one candidate.
type TracedAnswer struct {
	Backend string         `json:"backend"`
	Plugin  string         `json:"plugin"`
	Verdict string         `json:"verdict"`
	Ranges  []string       `json:"ranges"`
	Reasons []TracedReason `json:"reasons"`
}

// TracedReason is a reason as `weir explain --format json` writes it.
type TracedReason struct {
	Code     string `json:"code"`
	Observed string `json:"observed"`
	Required string `json:"required"`
	Rank     *int   `json:"rank"` // nil for none
	Text     string `json:"text"`
}

func (r TracedReason) String() string {
	return backend.Reason{
		Code: backend.Code(r.Code), Observed: r.Observed, Required: r.Required, Text: r.Text, Rank: lo.FromPtrOr(r.Rank, backend.AnyRank),
	}.String()
}

// TracedFault is a step that went wrong.
type TracedFault struct {
	Step    string `json:"step"` // weir.plan, weir.prepare, weir.selftest or weir.commit
	Backend string `json:"backend"`
	Rank    int    `json:"rank"` // -1 for none
	Error   string `json:"error"`
}

// ErrCut is the error of ReadTraces for a file that ends in the middle of an entry, as one does that is being written.
var ErrCut = errors.New("the file ends in the middle of an entry")

// ReadTraces reads the decisions of a file of OTLP JSON objects, as telemetry.file and the OpenTelemetry collector's
// file exporter write it, in the order of time. Entries of other signals and spans of other programs are passed over.
// With ErrCut the decisions before the cut are returned.
func ReadTraces(r io.Reader) ([]Traced, error) {
	var spans []received
	d := json.NewDecoder(r)
	for n := 1; ; n++ {
		var entry json.RawMessage
		err := d.Decode(&entry)
		if errors.Is(err, io.EOF) {
			return decisions(spans), nil
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return decisions(spans), ErrCut
		}
		if err != nil {
			return nil, fmt.Errorf("entry %d is not JSON (compressed or binary files cannot be read): %w", n, err)
		}
		m, err := unmarshalTraces(entry)
		if err != nil {
			return nil, fmt.Errorf("entry %d is not OTLP JSON: %w", n, err)
		}
		for _, rs := range m.GetResourceSpans() {
			service := attributes(rs.GetResource().GetAttributes()).text("service.name")
			for _, ss := range rs.GetScopeSpans() {
				for _, s := range ss.GetSpans() {
					if strings.HasPrefix(s.GetName(), "weir.") {
						spans = append(spans, received{s, service})
					}
				}
			}
		}
	}
}

type received struct {
	*tracepb.Span
	service string
}

func (s received) attributes() attributes { return s.GetAttributes() }

// fault is the message of a span whose status is an error.
func (s received) fault() string {
	if s.GetStatus().GetCode() != tracepb.Status_STATUS_CODE_ERROR {
		return ""
	}
	return lo.CoalesceOrEmpty(s.GetStatus().GetMessage(), s.attributes().text(keyErrorType), "failed")
}

func decisions(spans []received) []Traced {
	children := lo.GroupBy(spans, func(s received) string { return string(s.GetTraceId()) + string(s.GetParentSpanId()) })
	var all []Traced
	for _, s := range spans {
		if s.GetName() == spanResolve {
			all = append(all, decision(s, children[string(s.GetTraceId())+string(s.GetSpanId())]))
		}
	}
	slices.SortStableFunc(all, func(a, b Traced) int { return a.Time.Compare(b.Time) })
	return all
}

func decision(s received, children []received) Traced {
	a := s.attributes()
	slices.SortStableFunc(children, func(x, y received) int {
		return int(min(max(int64(x.GetStartTimeUnixNano())-int64(y.GetStartTimeUnixNano()), -1), 1))
	})
	t := Traced{
		TraceID: fmt.Sprintf("%x", s.GetTraceId()), Service: s.service,
		Time:    time.Unix(0, int64(s.GetStartTimeUnixNano())).UTC(),
		Seconds: float64(s.GetEndTimeUnixNano()-s.GetStartTimeUnixNano()) / 1e9,
		Group:   a.text(keyGroup), WorldSize: int(a.get(keyWorldSize).GetIntValue()), Link: a.text(keyLink),
		Memory: a.text(keyMemory), DataType: a.text(keyDataType), Op: a.text(keyOp), Mode: a.text(keyMode),
		Backends: a.texts(keyBackends), Fallback: a.get(keyFallback).GetBoolValue(), Error: s.fault(),
		Answers: []TracedAnswer{}, Faults: []TracedFault{},
	}
	for _, c := range children {
		a := c.attributes()
		if c.GetName() == spanAccept {
			t.Answers = append(t.Answers, TracedAnswer{
				Backend: a.text(keyBackend), Plugin: a.text(keyPlugin), Verdict: a.text(keyVerdict), Ranges: a.texts(keyRanges), Reasons: a.reasons(),
			})
			continue
		}
		if why := c.fault(); why != "" {
			rank := -1
			if v := a.get(keyRank); v != nil {
				rank = int(v.GetIntValue())
			}
			t.Faults = append(t.Faults, TracedFault{c.GetName(), a.text(keyBackend), rank, why})
		}
	}
	return t
}

// attributes are those of a span or resource.
type attributes []*commonpb.KeyValue

func (a attributes) get(key attribute.Key) *commonpb.AnyValue {
	kv, _ := lo.Find(a, func(kv *commonpb.KeyValue) bool { return kv.GetKey() == string(key) })
	return kv.GetValue()
}

func (a attributes) text(key attribute.Key) string { return a.get(key).GetStringValue() }

func (a attributes) texts(key attribute.Key) []string {
	return lo.Map(a.get(key).GetArrayValue().GetValues(), func(v *commonpb.AnyValue, _ int) string { return v.GetStringValue() })
}

// reasons puts the arrays of a span together again.
func (a attributes) reasons() []TracedReason {
	observed, required, texts := a.texts(keyReasonsObserved), a.texts(keyReasonsRequired), a.texts(keyReasonTexts)
	ranks := a.get(keyReasonRanks).GetArrayValue().GetValues()
	return lo.Map(a.texts(keyReasonCodes), func(code string, i int) TracedReason {
		r := TracedReason{Code: code, Observed: lo.NthOrEmpty(observed, i), Required: lo.NthOrEmpty(required, i), Text: lo.NthOrEmpty(texts, i)}
		if i < len(ranks) && ranks[i].GetIntValue() != backend.AnyRank {
			r.Rank = lo.ToPtr(int(ranks[i].GetIntValue()))
		}
		return r
	})
}

package telemetrytest

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/samber/lo"
	tracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	spanpb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// Span is a span as it was received.
type Span struct {
	Trace, ID, Parent string // hexadecimal; Parent is "" for the first span of a trace
	Name              string
	Scope             string // name of the instrumentation
	Service           string // service.name
	Start, End        uint64 // nanoseconds since 1970
	Attributes        map[string]string
	Failed            bool   // status Error
	Status            string // message of the status
}

func spansOf(req *tracepb.ExportTraceServiceRequest) []Span {
	var spans []Span
	for _, r := range req.GetResourceSpans() {
		service := attributesOf(r.GetResource().GetAttributes())["service.name"]
		for _, scope := range r.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				spans = append(spans, Span{
					Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()), Parent: hex.EncodeToString(s.GetParentSpanId()),
					Name: s.GetName(), Scope: scope.GetScope().GetName(), Service: service,
					Start: s.GetStartTimeUnixNano(), End: s.GetEndTimeUnixNano(),
					Attributes: attributesOf(s.GetAttributes()),
					Failed:     s.GetStatus().GetCode() == spanpb.Status_STATUS_CODE_ERROR,
					Status:     s.GetStatus().GetMessage(),
				})
			}
		}
	}
	return spans
}

func attributesOf(attrs []*commonpb.KeyValue) map[string]string {
	return lo.SliceToMap(attrs, func(a *commonpb.KeyValue) (string, string) { return a.GetKey(), text(a.GetValue()) })
}

// text writes a value on one line: strings bare where that is clear, arrays in brackets.
func text(v *commonpb.AnyValue) string {
	switch x := v.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		if x.StringValue == "" || strings.ContainsAny(x.StringValue, " \t\n\",[]=") {
			return strconv.Quote(x.StringValue)
		}
		return x.StringValue
	case *commonpb.AnyValue_BoolValue:
		return strconv.FormatBool(x.BoolValue)
	case *commonpb.AnyValue_IntValue:
		return strconv.FormatInt(x.IntValue, 10)
	case *commonpb.AnyValue_DoubleValue:
		return strconv.FormatFloat(x.DoubleValue, 'g', -1, 64)
	case *commonpb.AnyValue_ArrayValue:
		parts := lo.Map(x.ArrayValue.GetValues(), func(e *commonpb.AnyValue, _ int) string { return text(e) })
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return fmt.Sprint(v)
}

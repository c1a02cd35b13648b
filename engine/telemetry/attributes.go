package telemetry

import (
	"strings"

	"github.com/samber/lo"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/dispatch"
)

func requestAttributes(g collective.Group, c collective.Class) []attribute.KeyValue {
	return append(classAttributes(c),
		keyGroup.String(clean(g.ID)),
		keyWorldSize.Int(g.WorldSize()),
		keyLink.String(g.Worst().String()),
	)
}

func classAttributes(c collective.Class) []attribute.KeyValue {
	return []attribute.KeyValue{
		keyMemory.String(c.Memory.String()),
		keyDataType.String(c.DataType.String()),
		keyOp.String(c.Op.String()),
		keyMode.String(c.Mode()),
	}
}

func answerAttributes(a dispatch.Answer) []attribute.KeyValue {
	attrs := []attribute.KeyValue{
		keyBackend.String(clean(a.Backend)),
		keyPlugin.String(clean(a.Plugin)),
		keyVerdict.String(string(a.Verdict.Kind)),
	}
	if len(a.Verdict.Ranges) > 0 {
		attrs = append(attrs, keyRanges.StringSlice(lo.Map(a.Verdict.Ranges, func(r backend.Range, _ int) string { return r.String() })))
	}
	return append(attrs, reasonAttributes(a.Verdict.Reasons)...)
}

// reasonAttributes are arrays of one length. Ranks and texts are left out if no reason has any.
func reasonAttributes(reasons []backend.Reason) []attribute.KeyValue {
	if len(reasons) == 0 {
		return nil
	}
	column := func(key attribute.Key, value func(backend.Reason) string) attribute.KeyValue {
		return key.StringSlice(lo.Map(reasons, func(r backend.Reason, _ int) string { return clean(value(r)) }))
	}
	attrs := []attribute.KeyValue{
		column(keyReasonCodes, func(r backend.Reason) string { return string(r.Code) }),
		column(keyReasonsObserved, func(r backend.Reason) string { return r.Observed }),
		column(keyReasonsRequired, func(r backend.Reason) string { return r.Required }),
	}
	if lo.SomeBy(reasons, func(r backend.Reason) bool { return r.Rank != backend.AnyRank }) {
		attrs = append(attrs, keyReasonRanks.IntSlice(lo.Map(reasons, func(r backend.Reason, _ int) int { return r.Rank })))
	}
	if lo.SomeBy(reasons, func(r backend.Reason) bool { return r.Text != "" }) {
		attrs = append(attrs, column(keyReasonTexts, func(r backend.Reason) string { return r.Text }))
	}
	return attrs
}

// fault marks a span as failed.
func fault(span trace.Span, r backend.Reason) {
	if !span.IsRecording() {
		return
	}
	span.SetStatus(codes.Error, clean(r.String()))
	span.SetAttributes(keyErrorType.String(string(r.Code)))
}

// clean makes a string from outside fit for protobuf: one that is not UTF-8 would lose the whole batch of spans.
func clean(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

package telemetry

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
)

// OTLP's JSON is that of protobuf, except that ids are hexadecimal and enums are numbers (OTLP specification 1.x,
// "JSON Protobuf Encoding").

// idKeys are the fields that hold ids, in both spellings that protobuf's JSON may be read in.
var idKeys = map[string]bool{
	"traceId": true, "spanId": true, "parentSpanId": true,
	"trace_id": true, "span_id": true, "parent_span_id": true,
}

func marshalTraces(m *collectorpb.ExportTraceServiceRequest) ([]byte, error) {
	data, err := protojson.MarshalOptions{UseEnumNumbers: true}.Marshal(m)
	if err != nil {
		return nil, err
	}
	return convertIDs(data, func(id string) (string, error) {
		raw, err := base64.StdEncoding.DecodeString(id)
		return hex.EncodeToString(raw), err
	})
}

func unmarshalTraces(data []byte) (*collectorpb.ExportTraceServiceRequest, error) {
	data, err := convertIDs(data, func(id string) (string, error) {
		raw, err := hex.DecodeString(id)
		return base64.StdEncoding.EncodeToString(raw), err
	})
	if err != nil {
		return nil, err
	}
	m := &collectorpb.ExportTraceServiceRequest{}
	return m, protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, m)
}

// convertIDs rewrites the ids of a JSON text. Numbers keep their digits.
func convertIDs(data []byte, convert func(string) (string, error)) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if err := walkIDs(v, convert); err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

func walkIDs(v any, convert func(string) (string, error)) error {
	switch v := v.(type) {
	case map[string]any:
		for key, x := range v {
			id, isText := x.(string)
			if !idKeys[key] || !isText {
				if err := walkIDs(x, convert); err != nil {
					return err
				}
				continue
			}
			converted, err := convert(id)
			if err != nil {
				return fmt.Errorf("%s %q is not an id: %w", key, id, err)
			}
			v[key] = converted
		}
	case []any:
		for _, x := range v {
			if err := walkIDs(x, convert); err != nil {
				return err
			}
		}
	}
	return nil
}

package pluginv1

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"

	"google.golang.org/protobuf/types/known/structpb"
)

// toStruct goes through JSON, which knows more Go types than structpb does. The error names the setting.
func toStruct(settings map[string]any) (*structpb.Struct, error) {
	if len(settings) == 0 {
		return nil, nil
	}
	data, err := json.Marshal(settings)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var values map[string]any
	if err := d.Decode(&values); err != nil {
		return nil, err
	}
	if err := CheckNumbers("", values); err != nil {
		return nil, err
	}
	s := &structpb.Struct{}
	return s, s.UnmarshalJSON(data)
}

// CheckNumbers is CheckNumber for every json.Number of the setting that is named path; the error names the one that is wrong.
func CheckNumbers(path string, v any) error {
	switch v := v.(type) {
	case map[string]any:
		if path != "" {
			path += "."
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if err := CheckNumbers(path+key, v[key]); err != nil {
				return err
			}
		}
	case []any:
		for i, e := range v {
			if err := CheckNumbers(path+"["+strconv.Itoa(i)+"]", e); err != nil {
				return err
			}
		}
	case json.Number:
		if err := CheckNumber(v.String()); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// CheckNumber is the error for a number, in decimal, that a setting cannot hold: settings travel as google.protobuf.Struct, whose
// numbers are doubles. A whole number arrives as it is or not at all; a fraction or power of ten is the nearest double, as
// whoever writes it expects.
func CheckNumber(text string) error {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return fmt.Errorf("%s is not a number that a setting can hold", text)
	}
	whole, ok := new(big.Int).SetString(text, 10)
	if !ok {
		return nil
	}
	if near, _ := big.NewFloat(f).Int(nil); near.Cmp(whole) != 0 {
		return fmt.Errorf("%s is a whole number that a setting cannot hold, the nearest is %s: write it as text (%q)", text, near, text)
	}
	return nil
}

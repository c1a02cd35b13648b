package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/samber/lo"
)

// Settings is the plugin's part of the configuration (plugins.NAME.settings).
type Settings struct{ values map[string]any }

// NewSettings makes settings of values as a configuration holds them, for tests.
func NewSettings(values map[string]any) Settings { return Settings{values: values} }

// Decode fills a struct, given by pointer, whose fields are named by their `json` tags. Fields that are not set keep
// their values, so defaults are put into the struct before. An error names the setting: an unknown one, or one of the
// wrong type. A number that is not whole does not fit an integer.
func (s Settings) Decode(dst any) error {
	target := reflect.TypeOf(dst)
	if target == nil || target.Kind() != reflect.Pointer || target.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("settings are decoded into a pointer to a struct, not into %T", dst)
	}
	known := fieldNames(target.Elem())
	unknown := lo.Filter(slices.Sorted(maps.Keys(s.values)), func(key string, _ int) bool { return !slices.Contains(known, key) })
	if len(unknown) > 0 {
		return fmt.Errorf("unknown setting %s; known are: %s", quoted(unknown), lo.CoalesceOrEmpty(strings.Join(known, ", "), "none"))
	}
	for _, key := range slices.Sorted(maps.Keys(s.values)) {
		if err := decodeOne(key, s.values[key], dst); err != nil {
			return err
		}
	}
	return nil
}

func decodeOne(key string, value, dst any) error {
	data, err := json.Marshal(map[string]any{key: exact(value)})
	if err != nil {
		return fmt.Errorf("setting %s: %w", key, err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err = d.Decode(dst)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong):
		return fmt.Errorf("setting %s: %s where %s is wanted", wrong.Field, wrong.Value, wrong.Type)
	case err != nil:
		return fmt.Errorf("setting %s: %s", key, strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// exact is a setting whose whole numbers keep all their digits as JSON; those of a float64 would be as few as tell it from
// its neighbours, which is another number for an integer.
func exact(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return lo.MapValues(v, func(e any, _ string) any { return exact(e) })
	case []any:
		return lo.Map(v, func(e any, _ int) any { return exact(e) })
	case float64:
		if v == math.Trunc(v) && math.Abs(v) <= math.MaxUint64 {
			return json.Number(strconv.FormatFloat(v, 'f', 0, 64))
		}
	}
	return v
}

// fieldNames are the settings that a struct knows, in its order.
func fieldNames(t reflect.Type) []string {
	return lo.FilterMap(reflect.VisibleFields(t), func(f reflect.StructField, _ int) (string, bool) {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		return lo.CoalesceOrEmpty(tag, f.Name), f.IsExported() && !f.Anonymous && tag != "-"
	})
}

func quoted(names []string) string {
	return strings.Join(lo.Map(names, func(n string, _ int) string { return fmt.Sprintf("%q", n) }), ", ")
}

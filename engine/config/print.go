package config

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/samber/lo"
	"go.yaml.in/yaml/v3"

	"github.com/weir-project/weir/core/plain"
)

// Entry is one effective value.
type Entry struct {
	Key    string `json:"key"`
	Value  any    `json:"value"` // durations and sizes as text, such as "30s"
	Origin string `json:"origin"`
}

// Entries lists every effective value in the order of Config, the keys of mappings sorted. A mapping that is empty is
// one entry.
func (l *Loaded) Entries() []Entry {
	entries := collect(schema, reflect.ValueOf(l.Config), nil)
	for i := range entries {
		entries[i].Origin = l.Origin(entries[i].Key)
	}
	return entries
}

func collect(n *node, v reflect.Value, path []string) []Entry {
	var entries []Entry
	switch {
	case n.fields != nil:
		for i, f := range n.fields {
			entries = append(entries, collect(f.node, v.Field(i), extend(path, f.name))...)
		}
	case n.elem != nil && v.Len() > 0:
		for _, key := range slices.Sorted(maps.Keys(keysOf(v))) {
			entries = append(entries, collect(n.elem, v.MapIndex(reflect.ValueOf(key)), extend(path, key))...)
		}
	case n.elem != nil:
		return []Entry{{Key: strings.Join(path, "."), Value: map[string]any{}}}
	case n.typ == free:
		return collectSetting(v.Interface(), path)
	default:
		return []Entry{{Key: strings.Join(path, "."), Value: display(v.Interface())}}
	}
	return entries
}

func keysOf(v reflect.Value) map[string]bool {
	return lo.SliceToMap(v.MapKeys(), func(k reflect.Value) (string, bool) { return k.String(), true })
}

func collectSetting(v any, path []string) []Entry {
	nested, ok := v.(map[string]any)
	if !ok || len(nested) == 0 {
		return []Entry{{Key: strings.Join(path, "."), Value: v}}
	}
	var entries []Entry
	for _, key := range slices.Sorted(maps.Keys(nested)) {
		entries = append(entries, collectSetting(nested[key], extend(path, key))...)
	}
	return entries
}

// display is a value as JSON shows it.
func display(v any) any {
	switch v := v.(type) {
	case time.Duration, Size:
		return text(v)
	case []string:
		return append([]string{}, v...) // [] rather than null
	}
	return v
}

// Print writes every effective value with its origin, one a line: "key = value  # origin".
func (l *Loaded) Print(w io.Writer) error {
	entries := l.Entries()
	lines := lo.Map(entries, func(e Entry, _ int) string { return plain.Line(e.Key) + " = " + text(e.Value) })
	width := 0
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n <= maxAlign {
			width = max(width, n)
		}
	}
	for i, line := range lines {
		if _, err := fmt.Fprintf(w, "%-*s  # %s\n", width, line, entries[i].Origin); err != nil {
			return err
		}
	}
	return nil
}

// maxAlign keeps one long line from pushing all origins out of sight, in characters.
const maxAlign = 72

// PrintJSON writes Entries as a JSON array.
func (l *Loaded) PrintJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(l.Entries())
}

// plainText needs no quotes, unless YAML would take it for a number or the like.
var plainText = regexp.MustCompile(`^[^\s"'#\[\]{},:][^\s"'#\[\]{},]*$`)

// text writes a value as a configuration file could hold it.
func text(v any) string {
	switch v := v.(type) {
	case time.Duration:
		return shortDuration(v)
	case Size:
		return v.String()
	case string:
		if plainText.MatchString(v) && plain.Text(v) == v && (&yaml.Node{Kind: yaml.ScalarNode, Value: v}).ShortTag() == tagString {
			return v
		}
		return strconv.Quote(v)
	case []string:
		return "[" + strings.Join(lo.Map(v, func(s string, _ int) string { return text(s) }), ", ") + "]"
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// shortDuration leaves out the parts that are zero: "1m" rather than "1m0s".
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

package config

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weir-project/weir/sdk/proto/pluginv1"
)

// errAlias keeps a configuration readable from top to bottom, and safe from aliases that contain themselves.
var errAlias = errors.New("YAML aliases are not supported; write the value out")

// reader walks YAML beside the schema.
type reader struct {
	where   func(y *yaml.Node) string // what to call the place of y
	dir     string                    // relative paths begin here
	origins map[string]string         // filled while reading
}

func (r reader) fail(y *yaml.Node, err error) error { return fmt.Errorf("%s: %w", r.where(y), err) }

// pairs calls each for the keys of a mapping, which must be text and appear once.
func (r reader) pairs(path []string, y *yaml.Node, each func(key string, k, v *yaml.Node) error) error {
	lines := map[string]int{}
	for i := 0; i < len(y.Content); i += 2 {
		k, v := y.Content[i], y.Content[i+1]
		if k.Kind != yaml.ScalarNode || k.ShortTag() != tagString {
			return r.fail(k, fmt.Errorf("a key must be text: quote it, or write keys as \"name: value\" without anchors and merges"))
		}
		if before, ok := lines[k.Value]; ok {
			return r.fail(k, fmt.Errorf("key %s is already set on line %d", strings.Join(extend(path, k.Value), "."), before))
		}
		lines[k.Value] = k.Line
		if err := each(k.Value, k, v); err != nil {
			return err
		}
	}
	return nil
}

// mapping reads the keys below a section.
func (r reader) mapping(n *node, path []string, y *yaml.Node) (map[string]any, error) {
	values := map[string]any{}
	err := r.pairs(path, y, func(key string, k, v *yaml.Node) error {
		at := extend(path, key)
		child := n.child(key)
		if n.elem != nil {
			if err := checkKey(n.keys, key); err != nil {
				return r.fail(k, fmt.Errorf("%s: %w", strings.Join(path, "."), err))
			}
		}
		if child == nil {
			return r.fail(k, unknown(at, func(key string) string { return key }))
		}
		value, err := r.value(child, at, k, v)
		if err != nil {
			return err
		}
		if n.elem != nil && child.fields != nil {
			r.origins[strings.Join(at, ".")] = r.where(k)
			if value == nil {
				value = map[string]any{} // "shm:" alone still names a plugin
			}
		}
		if value != nil || child.typ == free {
			values[key] = value
		}
		return nil
	})
	return values, err
}

// value reads what stands at a key; nil if nothing does, which leaves the default.
func (r reader) value(n *node, path []string, k, v *yaml.Node) (any, error) {
	key := strings.Join(path, ".")
	if v.Kind == yaml.AliasNode {
		return nil, r.fail(v, fmt.Errorf("%s: %w", key, errAlias))
	}
	tag := v.ShortTag()
	switch {
	case n.typ == free:
		return r.setting(path, k, v)
	case tag == tagNull:
		return nil, nil
	case n.section():
		if v.Kind != yaml.MappingNode {
			return nil, r.fail(v, fmt.Errorf("%s must be a mapping of keys, not %s", key, describe(tag)))
		}
		return r.mapping(n, path, v)
	}
	r.origins[key] = r.where(k)
	if v.Kind == yaml.SequenceNode && n.typ == stringList {
		return r.list(key, v)
	}
	if v.Kind != yaml.ScalarNode {
		return nil, r.fail(v, fmt.Errorf("%s must not be %s", key, describe(tag)))
	}
	value, err := n.parse(v.Value, tag, r.dir)
	if err != nil {
		return nil, r.fail(v, fmt.Errorf("%s: %w", key, err))
	}
	return value, nil
}

func (r reader) list(key string, y *yaml.Node) ([]string, error) {
	list := []string{}
	for _, v := range y.Content {
		if v.Kind != yaml.ScalarNode || v.ShortTag() != tagString {
			return nil, r.fail(v, fmt.Errorf("%s: an element must be text, not %s", key, describe(v.ShortTag())))
		}
		list = append(list, v.Value)
	}
	return list, nil
}

// setting reads a value that only its plugin understands, as JSON would hold it.
func (r reader) setting(path []string, k, v *yaml.Node) (any, error) {
	r.origins[strings.Join(path, ".")] = r.where(k)
	switch v.Kind {
	case yaml.AliasNode:
		return nil, r.fail(v, fmt.Errorf("%s: %w", strings.Join(path, "."), errAlias))
	case yaml.MappingNode:
		values := map[string]any{}
		err := r.pairs(path, v, func(key string, k, v *yaml.Node) error {
			if err := checkKey("SETTING", key); err != nil {
				return r.fail(k, fmt.Errorf("%s: %w", strings.Join(path, "."), err))
			}
			value, err := r.setting(extend(path, key), k, v)
			values[key] = value
			return err
		})
		return values, err
	case yaml.SequenceNode:
		values := make([]any, len(v.Content))
		for i, e := range v.Content {
			var err error
			if values[i], err = r.setting(path, k, e); err != nil {
				return nil, err
			}
		}
		return values, nil
	}
	value, err := scalar(v)
	if err != nil {
		return nil, r.fail(v, fmt.Errorf("%s: %w", strings.Join(path, "."), err))
	}
	return value, nil
}

// scalar is a scalar as JSON could hold it.
func scalar(y *yaml.Node) (any, error) {
	switch tag := y.ShortTag(); tag {
	case tagNull:
		return nil, nil
	case tagString, tagTime:
		return y.Value, nil
	case tagBool, tagInt, tagFloat:
		var v any
		if err := y.Decode(&v); err != nil {
			return nil, err
		}
		return v, checkNumber(v, y.Value)
	default:
		return nil, fmt.Errorf("must be a mapping, list, text, number, true or false, not %s", describe(tag))
	}
}

// checkNumber refuses a number that would reach the plugin as another. text is what was written, which for a whole number
// beyond 64 bits is more than v holds.
func checkNumber(v any, text string) error {
	switch v := v.(type) {
	case bool:
		return nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%s is not a number that a setting can hold", text)
		}
		return pluginv1.CheckNumber(strings.ReplaceAll(text, "_", ""))
	}
	return pluginv1.CheckNumber(fmt.Sprint(v))
}

package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/knadh/koanf/providers/env/v2"
	"go.yaml.in/yaml/v3"

	"github.com/weir-project/weir/sdk/proto/pluginv1"
	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// prefix begins every variable that is configuration.
const prefix = "WEIR_"

// The variables that begin like configuration and are not: the loader ignores them.
const (
	AgentSocketVariable = rankv1.EnvSocket        // ranks receive it: path of the agent's socket
	RankVariable        = rankv1.EnvRank          // ranks receive it: their rank
	WorldSizeVariable   = rankv1.EnvWorldSize     // ranks receive it: the number of ranks
	DeviceVariable      = rankv1.EnvDevice        // ranks read it: the GPU to use
	RequireVariable     = "WEIR_REQUIRE"          // tests read it: what must not be skipped
	PatienceVariable    = "WEIR_TEST_PATIENCE"    // tests read it: a factor for their deadlines
	LongVariable        = "WEIR_TEST_LONG"        // tests read it: whether those that take long run
	BuiltVariable       = "WEIR_TEST_BUILT"       // tests read it: a folder with the programs that they start
	CookieVariable      = pluginv1.MagicCookieKey // plugins read it, also those that a person starts
	BridgeVariable      = "WEIR_BRIDGE"           // workers without gRPC read it: the program that speaks it for them
	NCCLVariable        = "WEIR_NCCL_LIB"         // the drop-in for NCCL reads it: the real NCCL
	NCCLWaitVariable    = "WEIR_NCCL_TIMEOUT"     // the drop-in reads it: how long it waits for its peers
	NCCLGroupVariable   = "WEIR_NCCL_GROUP_SUMS"  // the drop-in reads it: how many sums of a group call are Weir's
	LibraryVariable     = "WEIR_LIB"              // the drop-in reads it: libweir.so
)

// ReservedVariables lists the variables that the loader ignores.
func ReservedVariables() []string {
	return []string{
		AgentSocketVariable, RankVariable, WorldSizeVariable, DeviceVariable, RequireVariable, PatienceVariable, LongVariable, BuiltVariable,
		CookieVariable, BridgeVariable, NCCLVariable, NCCLWaitVariable, NCCLGroupVariable, LibraryVariable,
	}
}

// VariableFor is the variable that sets a key, such as WEIR_GROUP__DEADLINE for group.deadline.
func VariableFor(key string) string {
	name := prefix
	n := schema
	for i, part := range strings.Split(key, ".") {
		if i > 0 {
			name += "__"
		}
		if n == nil || n.keys != "VARIABLE" { // the names of a plugin's variables stay as they are
			part = strings.ReplaceAll(strings.ToUpper(part), "-", "_")
		}
		name += part
		if n != nil {
			n = n.child(keyOf(n, part))
		}
	}
	return name
}

// readEnviron reads the variables that begin with WEIR_. Relative paths begin at dir. Every error names the variable.
func readEnviron(environ []string, dir string) (layer, error) {
	l := layer{origins: map[string]string{}}
	var failed error
	transform := func(name, text string) (string, any) {
		if failed != nil || slices.Contains(ReservedVariables(), name) {
			return "", nil
		}
		key, value, err := readVariable(name, text, dir, l.origins)
		if err != nil {
			failed = err
			return "", nil
		}
		return key, value
	}
	var err error
	l.values, err = env.Provider(".", env.Opt{
		Prefix: prefix, TransformFunc: transform, EnvironFunc: func() []string { return environ },
	}).Read()
	return l, cmp.Or(failed, contradiction(l.origins), err)
}

// readVariable is the key and the value of one variable; it notes the origin.
func readVariable(name, text, dir string, origins map[string]string) (string, any, error) {
	fail := func(err error) (string, any, error) { return "", nil, fmt.Errorf("%s: %w", name, err) }
	path, n, err := resolveVariable(name)
	if err != nil {
		return fail(err)
	}
	key := strings.Join(path, ".")
	if n.section() {
		return fail(fmt.Errorf("%s has keys of its own; set them one by one, such as %s", key, VariableFor(n.example(path))))
	}
	if other, ok := origins[key]; ok && other != name {
		return fail(fmt.Errorf("sets %s, which %s sets too", key, other))
	}
	origins[key] = name
	if n.typ == free {
		value, err := settingFromText(path, text, reader{where: func(*yaml.Node) string { return name }, origins: origins})
		return key, value, err
	}
	value, err := n.parse(text, untyped, dir)
	if err != nil {
		return fail(fmt.Errorf("%s: %w", key, err))
	}
	return key, value, nil
}

// resolveVariable finds the key that a variable means.
func resolveVariable(name string) ([]string, *node, error) {
	var path []string
	n := schema
	parts := strings.Split(strings.TrimPrefix(name, prefix), "__")
	for i, part := range parts {
		verbatim := n.keys == "VARIABLE"
		if verbatim {
			part = strings.Join(parts[i:], "__")
		}
		key := keyOf(n, part)
		path = append(path, key)
		if n.elem != nil || n.typ == free {
			if err := checkKey(n.keys, key); err != nil {
				return nil, nil, err
			}
		}
		child := n.child(key)
		if n.typ == free {
			child = n // settings nest as deep as they like
		}
		switch {
		case child == nil && n.section():
			return nil, nil, unknown(path, VariableFor)
		case child == nil:
			return nil, nil, fmt.Errorf("unknown key %s; %s has no keys below it", strings.Join(path, "."), strings.Join(path[:i], "."))
		}
		n = child
		if verbatim {
			break
		}
	}
	if want := VariableFor(strings.Join(path, ".")); name != want && strings.EqualFold(name, want) {
		return nil, nil, fmt.Errorf("variables are written in capitals: %s", want)
	}
	return path, n, nil
}

// keyOf is the key that a part of a variable stands for below n.
func keyOf(n *node, part string) string {
	switch n.keys {
	case "VARIABLE":
		return part
	case "NAME":
		return strings.ReplaceAll(strings.ToLower(part), "_", "-")
	}
	return strings.ToLower(part)
}

// example is the first value below the section n.
func (n *node) example(path []string) string {
	known := slices.DeleteFunc(n.known(path, nil), func(key string) bool {
		m := schema
		for p := range strings.SplitSeq(key, ".") {
			m = m.child(p)
		}
		return m.section()
	})
	return known[0]
}

// settingFromText reads a setting as YAML would, so that 4 is a number and [a, b] a list.
func settingFromText(path []string, text string, r reader) (any, error) {
	if text == "" {
		return "", nil
	}
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return nil, r.fail(&doc, fmt.Errorf("%s: %q is not a YAML value; put text with special characters in quotes", strings.Join(path, "."), text))
	}
	if len(doc.Content) == 0 { // only a comment
		return text, nil
	}
	return r.setting(path, doc.Content[0], doc.Content[0])
}

// contradiction is the error for two variables of which one sets what the other puts keys below.
func contradiction(origins map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(origins)) {
		for up := key; strings.Contains(up, "."); {
			up = up[:strings.LastIndexByte(up, '.')]
			if other, ok := origins[up]; ok && other != origins[key] {
				return errors.New(origins[key] + " sets a key below " + up + ", which " + other + " sets to a value")
			}
		}
	}
	return nil
}

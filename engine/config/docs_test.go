package config

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

func document(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// leaves are the type and the default of every key, as the documentation should give them.
func leaves(n *node, v reflect.Value, path []string) map[string]string {
	all := map[string]string{}
	for i, f := range n.fields {
		maps.Copy(all, leaves(f.node, v.Field(i), extend(path, f.name)))
	}
	switch {
	case n.elem != nil && n.elem.fields != nil:
		maps.Copy(all, leaves(n.elem, reflect.ValueOf(defaultPlugin()), extend(path, n.keys)))
	case n.elem != nil:
		shown := "{}"
		if v.Len() > 0 { // only the fallbacks have a default
			shown = "cuda: " + v.MapIndex(reflect.ValueOf("cuda")).String()
		}
		all[joinKey(extend(path, n.keys))] = typeName(n.elem) + " | `" + shown + "`"
	case n.fields == nil:
		all[joinKey(path)] = typeName(n) + " | `" + text(display(v.Interface())) + "`"
	}
	return all
}

func joinKey(path []string) string { return strings.Join(path, ".") }

func typeName(n *node) string {
	if n.path {
		return "path"
	}
	switch n.typ.String() {
	case "time.Duration":
		return "duration"
	case "config.Size":
		return "size"
	case "bool":
		return "true/false"
	case "[]string":
		return "list"
	case "string":
		return "text"
	case "int":
		return "number"
	}
	return "any"
}

var row = regexp.MustCompile("(?m)^\\| `([a-z][^`]*)` \\| ([^|]*) \\| ([^|]*) \\| (\\S.*) \\|$")

// Every key is documented with its type and default, and no other.
func TestDocumentMatchesConfig(t *testing.T) {
	want := leaves(schema, reflect.ValueOf(Default("")), nil)
	want["plugin_dir"] = "path | `plugins` beside the `weir` executable"
	want["plugins.NAME.path"] = "path | `NAME` in `plugin_dir`"
	want["plugins.NAME.settings.SETTING"] = "any | `{}`"
	got := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(document(t), -1) {
		got[m[1]] = m[2] + " | " + m[3]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/configuration.md differs from the struct (-struct +document):\n%s", diff)
	}
}

func TestDocumentListsFlagsAndVariables(t *testing.T) {
	doc := document(t)
	fs := pflag.NewFlagSet("weir", pflag.ContinueOnError)
	Flags(fs)
	var flags []string
	fs.VisitAll(func(f *pflag.Flag) { flags = append(flags, f.Name) })
	slices.Sort(flags)
	listed := func(section, pattern string) []string {
		_, text, _ := strings.Cut(doc, section)
		var names []string
		for _, m := range regexp.MustCompile(`(?m)^\| `+"`"+pattern+"`"+` \|`).FindAllStringSubmatch(text, -1) {
			names = append(names, m[1])
		}
		slices.Sort(names)
		return names
	}
	if diff := cmp.Diff(flags, listed("\n## Flags\n", `--([a-z-]+)`)); diff != "" {
		t.Errorf("flags (-code +document):\n%s", diff)
	}
	reserved := slices.Sorted(slices.Values(ReservedVariables()))
	if diff := cmp.Diff(reserved, listed("and no others:", `(WEIR_\w+)`)); diff != "" {
		t.Errorf("reserved variables (-code +document):\n%s", diff)
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `(WEIR_[^`]+)` \\| `([^`]+)`").FindAllStringSubmatch(doc, -1) {
		l := mustLoad(t, "", []string{m[1]})
		name, _, _ := strings.Cut(m[1], "=")
		if got := l.Origin(m[2]); got != name {
			t.Errorf("%s: the origin of %s is %s", m[1], m[2], got)
		}
	}
}

// What the C library and the drop-in for NCCL read may be in the environment of every command, as in that of weir run.
func TestVariablesOfTheLibrariesAreNoConfiguration(t *testing.T) {
	sources, err := filepath.Glob("../../sdk/*/*.c")
	if err != nil {
		t.Fatal(err)
	}
	var read []string
	for _, path := range sources {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`getenv\("(WEIR_\w+)"\)`).FindAllSubmatch(b, -1) {
			read = append(read, string(m[1]))
		}
	}
	for _, name := range read {
		mustLoad(t, "", []string{name + "=x"}) // in a folder of its own
	}
	if !slices.Contains(read, "WEIR_NCCL_LIB") {
		t.Errorf("the sources read %v: where is the drop-in?", read)
	}
}

func TestDocumentExamplesLoad(t *testing.T) {
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(document(t), -1)
	if len(examples) == 0 {
		t.Fatal("the document has no example")
	}
	for _, m := range examples {
		mustLoad(t, m[1], nil)
	}
}

// Without a tag a field would be a key under a name of koanf's choosing.
func TestEveryFieldHasATag(t *testing.T) {
	valid := regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	var check func(n *node)
	check = func(n *node) {
		for i, f := range n.fields {
			if !valid.MatchString(f.name) {
				t.Errorf("%s.%s: koanf tag %q", n.typ, n.typ.Field(i).Name, f.name)
			}
			check(f.node)
		}
		if n.elem != nil {
			if n.keys == "" {
				t.Errorf("%s: a mapping without a keys tag", n.typ)
			}
			check(n.elem)
		}
	}
	check(schema)
}

// No key is a whole number today; the day one is, it is read as strictly as the rest.
func TestWholeNumbers(t *testing.T) {
	n := schemaOf(reflect.TypeFor[int]())
	for _, c := range []struct{ text, tag string }{{"8", tagInt}, {"8", untyped}, {"-8", tagInt}} {
		if _, err := n.parse(c.text, c.tag, ""); err != nil {
			t.Error(err)
		}
	}
	for _, c := range []struct{ text, tag, want string }{
		{"8.5", tagFloat, "must be a whole number, not 8.5"},
		{"8.5", untyped, `must be a whole number, not "8.5"`},
		{"true", tagBool, "must be a whole number, not true"},
		{"8", tagString, `must be a whole number, not "8"`},
		{"99999999999999999999", tagInt, "must be a whole number, not 99999999999999999999"},
	} {
		_, err := n.parse(c.text, c.tag, "")
		wantError(t, err, c.want)
	}
}

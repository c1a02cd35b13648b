package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weir-project/weir/engine/licenses"
)

const root = "../.."

// TestLicencesOfAllThatIsLinked holds that what is shipped carries the licences of what is in it.
func TestLicencesOfAllThatIsLinked(t *testing.T) {
	kept, err := os.ReadFile(filepath.Join(root, textFile))
	if err != nil {
		t.Fatal(err)
	}
	all, err := linked(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 10 {
		t.Fatalf("only %d modules are linked: %v", len(all), all)
	}
	var want []string
	for _, m := range all {
		want = append(want, m.Path+" "+m.Version)
	}
	if got := owners(string(kept)); !slices.Equal(got, want) {
		t.Errorf("%s names\n%s\nand linked are\n%s\nrun ./task licenses", textFile, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	text, err := document(all)
	if err != nil {
		t.Fatal(err)
	}
	of, goText, found := strings.Cut(string(kept), section([]string{goSection}, ""))
	if of != text {
		t.Errorf("the texts in %s are not those of the modules: run ./task licenses", textFile)
	}
	if !found || !strings.Contains(goText, "The Go Authors") || !strings.Contains(goText, "Patents") {
		t.Errorf("%s does not end with Go's licence", textFile)
	}
	var printed strings.Builder
	if err := licenses.Print(&printed); err != nil || printed.String() != string(kept) {
		t.Errorf("what weir prints is not %s (%v): run ./task licenses", textFile, err)
	}
}

// owners are the modules that a document names, with versions, sorted.
func owners(text string) []string {
	all := regexp.MustCompile(`(?m)^\S+\.\S+/\S+ v\d\S*$`).FindAllString(text, -1)
	slices.SortFunc(all, func(a, b string) int { // by path, as a space is less than what else a path may go on with
		return strings.Compare(strings.Fields(a)[0], strings.Fields(b)[0])
	})
	return slices.Compact(all)
}

func TestModuleTexts(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m := module{Path: "example.com/m", Version: "v1.0.0", Dir: dir, packages: []string{filepath.Join(dir, "a", "b")}}
	put("a/b/license.go", "package b")
	put("NOTICE", "who wrote it\n")
	if _, err := m.texts(); err == nil || !strings.Contains(err.Error(), "example.com/m v1.0.0 has no licence") {
		t.Errorf("without a licence: %v", err)
	}
	put("LICENCE.md", "\nyou may  \r\n\r\n")
	put("a/COPYING", "that one may\n")
	put("c/LICENSE", "what is not linked\n")
	got, err := m.texts()
	if want := []string{"you may\n", "who wrote it\n", "that one may\n"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q (%v), want %q", got, err, want)
	}
	other := module{Path: "example.com/n", Version: "v2.0.0", Dir: dir}
	text, err := document([]module{m, other})
	if err != nil || strings.Count(text, "you may") != 1 || !strings.Contains(text, "example.com/m v1.0.0\nexample.com/n v2.0.0\n"+rule) {
		t.Errorf("two modules with one text (%v): %s", err, text)
	}
}

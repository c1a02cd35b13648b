package conformance

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// anchors are those that GitHub gives the headings of a page.
func anchors(t *testing.T, path string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	dropped := regexp.MustCompile(`[^a-z0-9 _-]`)
	for _, h := range regexp.MustCompile(`(?m)^#+ +(.*)$`).FindAllStringSubmatch(string(text), -1) {
		found[strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-")] = true
	}
	return found
}

// TestRulesAreDocumented: what a failure says to see is there, and every section about a rule is about one that exists.
func TestRulesAreDocumented(t *testing.T) {
	page := filepath.Join("../..", Documentation)
	found := anchors(t, page)
	names := map[string]bool{}
	for _, r := range Rules() {
		_, anchor, _ := strings.Cut(r.See(), "#")
		if names[r.Name] || r.Want == "" || strings.HasSuffix(r.Want, ".") {
			t.Errorf("%s: twice, or without a sentence of what is expected: %q", r.Name, r.Want)
		}
		if !found[anchor] {
			t.Errorf("%s: %s has no section #%s", r.Name, Documentation, anchor)
		}
		names[r.Name] = true
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range regexp.MustCompile(`(?m)^### (.*)$`).FindAllStringSubmatch(string(text), -1) {
		if !names[h[1]] {
			t.Errorf("%s describes %s, which is no rule", Documentation, h[1])
		}
	}
	for _, link := range regexp.MustCompile(`\]\(([^)#]*)#([^)]*)\)`).FindAllStringSubmatch(string(text), -1) {
		to := page
		if link[1] != "" {
			to = filepath.Join(filepath.Dir(page), link[1])
		}
		if !anchors(t, to)[link[2]] {
			t.Errorf("%s links to %s#%s, which is not there", Documentation, link[1], link[2])
		}
	}
}

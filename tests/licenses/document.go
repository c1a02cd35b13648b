package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	rule      = "================================================================================"
	goSection = "Go: its runtime and standard library"
	preface   = `Third-party licences

The programs, plugins and libraries of Weir contain the modules below, each with its version. The source of each is had by
"go mod download MODULE@VERSION", or from the repository that the module is named after. Weir's own licence is in LICENSE.
Written by "./task licenses"; do not edit.
`
)

// named are files that hold a licence or what a licence asks to be passed on.
var named = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|notice|copying|copyright|patents)([-._].*)?$`)

// addition are those of them that are no licence by themselves.
var addition = regexp.MustCompile(`(?i)^(notice|patents)`)

// elsewhere are licences of what is linked that stand in other files.
var elsewhere = map[string][]string{
	"golang.org/x/image": {"font/gofont/ttfs/README"}, // of the fonts in packages beside it
}

// document is the whole text but for Go's section. What several modules have in common stands once.
func document(all []module) (string, error) {
	owners := map[string][]string{}
	for _, m := range all {
		texts, err := m.texts()
		if err != nil {
			return "", err
		}
		for _, text := range texts {
			owners[text] = append(owners[text], m.Path+" "+m.Version)
		}
	}
	var sections []string
	for text, of := range owners {
		sections = append(sections, section(of, text)) // modules come sorted
	}
	slices.Sort(sections)
	return preface + strings.Join(sections, ""), nil
}

func section(of []string, text string) string {
	return fmt.Sprintf("\n%s\n%s\n%s\n\n%s", rule, strings.Join(of, "\n"), rule, text)
}

// texts are those of a module's licence, its notices and the licences of parts of others that it has taken in and that are linked.
func (m module) texts() ([]string, error) {
	var texts []string
	licences := 0
	for _, dir := range m.folders() {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("module %s: %w", m.Path, err)
		}
		for _, e := range entries {
			if !e.Type().IsRegular() || !named.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
				continue
			}
			text, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				return nil, fmt.Errorf("module %s: %w", m.Path, err)
			}
			texts = append(texts, plain(text))
			if dir == m.Dir && !addition.MatchString(e.Name()) {
				licences++
			}
		}
	}
	for _, name := range elsewhere[m.Path] {
		text, err := os.ReadFile(filepath.Join(m.Dir, name))
		if err != nil {
			return nil, fmt.Errorf("module %s: %w", m.Path, err)
		}
		texts = append(texts, plain(text))
	}
	if licences == 0 {
		return nil, fmt.Errorf("module %s %s has no licence in %s: it cannot be shipped", m.Path, m.Version, m.Dir)
	}
	return texts, nil
}

// plain is a text that differs from another only where its words do.
func plain(text []byte) string {
	lines := strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " \t\f")
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n") + "\n"
}

// Package docs runs what the documentation for authors shows.
package docs

import (
	"fmt"
	"regexp"
	"strings"
)

// block is a fenced block of a page. What is behind the language says how it is checked; CONTRIBUTING.md has the list.
type block struct {
	page, language string
	line           int
	marks          map[string]string // NAME=VALUE or NAME="SOME WORDS"; "" for a bare NAME
	text           string
}

func (b block) String() string { return fmt.Sprintf("%s:%d", b.page, b.line) }

func (b block) is(mark string) bool { _, ok := b.marks[mark]; return ok }

var (
	fence = regexp.MustCompile("^( *)```(.*)$")
	mark  = regexp.MustCompile(`([a-z]+)(?:=("[^"]*"|\S+))?`)
)

// blocks are the fenced blocks of a page, in order.
func blocks(page, text string) ([]block, error) {
	var all []block
	var open *block
	indent := ""
	for i, line := range strings.Split(text, "\n") {
		m := fence.FindStringSubmatch(line)
		switch {
		case open == nil && m != nil:
			language, rest, _ := strings.Cut(strings.TrimSpace(m[2]), " ")
			open, indent = &block{page: page, language: language, line: i + 1, marks: map[string]string{}}, m[1]
			for _, x := range mark.FindAllStringSubmatch(rest, -1) {
				open.marks[x[1]] = strings.Trim(x[2], `"`)
			}
		case open != nil && m != nil && m[2] == "":
			all, open = append(all, *open), nil
		case open != nil:
			open.text += strings.TrimPrefix(line, indent) + "\n"
		}
	}
	if open != nil {
		return nil, fmt.Errorf("%s: the block does not end", open)
	}
	return all, nil
}

// step is a command of a console block with what it prints.
type step struct {
	command string
	output  []string
}

// steps divides a console block at its prompts.
func (b block) steps() []step {
	var all []step
	for line := range strings.Lines(b.text) {
		line = strings.TrimSuffix(line, "\n")
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			all = append(all, step{command: command})
		} else if n := len(all); n > 0 {
			all[n-1].output = append(all[n-1].output, line)
		}
	}
	return all
}

// prints says what is wrong with an output. In what is wanted … stands for any text in a line and, on a line of its own, for any
// number of lines. Blanks in a row are one.
func prints(got string, want []string) error {
	lines := strings.Split(strings.TrimRight(got, "\n"), "\n")
	at, skip := 0, false
	for _, w := range want {
		if strings.TrimSpace(w) == "…" {
			skip = true
			continue
		}
		found := -1
		for i := at; i < len(lines); i++ {
			if matches(lines[i], w) {
				found = i
				break
			}
			if !skip {
				break
			}
		}
		if found < 0 {
			return fmt.Errorf("no line %q", w)
		}
		at, skip = found+1, false
	}
	if len(want) > 0 && !skip && at < len(lines) {
		return fmt.Errorf("more than is shown, from the line %q on", lines[at])
	}
	return nil
}

func matches(line, want string) bool {
	one := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	parts := strings.Split(one(want), "…")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(strings.TrimSpace(parts[i]))
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(one(line))
}

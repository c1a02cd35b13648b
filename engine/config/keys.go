package config

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/collective"
)

// validName is a name of a plugin or a backend.
var validName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

// checkKey says what is wrong with a key that the user chose, in a mapping of the kind keys.
func checkKey(keys, key string) error {
	switch {
	case key == "":
		return fmt.Errorf("a key is empty")
	case keys == "NAME" && !validName.MatchString(key):
		why := "is not allowed"
		if strings.Contains(key, ".") {
			why = "contains a dot"
		}
		return fmt.Errorf(`plugin name %q %s; use lower-case letters, digits and "-"%s`, key, why, alternative(key))
	case keys == "MEMORY" && !slices.Contains(memoryKinds(), key):
		return fmt.Errorf("unknown memory kind %q; use one of %s", key, strings.Join(memoryKinds(), ", "))
	case strings.Contains(key, "."):
		return fmt.Errorf("key %q contains a dot, which separates levels; nest the keys instead", key)
	case !printable(key) || keys == "VARIABLE" && strings.Contains(key, "="):
		return fmt.Errorf("key %q contains a character that is not allowed", key)
	}
	return nil
}

// printable reports whether text can stand in a one-line message as it is.
func printable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

func memoryKinds() []string {
	return lo.Map(collective.Memories(), func(m collective.Memory, _ int) string { return m.String() })
}

var notInName = regexp.MustCompile(`[^a-z0-9]+`)

// alternative proposes a valid name close to key.
func alternative(key string) string {
	name := strings.Trim(notInName.ReplaceAllString(strings.ToLower(key), "-"), "-")
	if name == "" {
		return ""
	}
	return fmt.Sprintf(", such as %q", name)
}

// unknown is the error for a key that does not exist, naming the nearest one that does. name writes a key as the user
// would have to: in a file or as a variable.
func unknown(path []string, name func(key string) string) error {
	key := strings.Join(path, ".")
	if !printable(key) {
		return fmt.Errorf("unknown key %q", key)
	}
	if near := Nearest(schema.known(nil, path), key); near != "" {
		return fmt.Errorf("unknown key %s, did you mean %s?", key, name(near))
	}
	n := schema
	for _, p := range path[:len(path)-1] {
		n = n.child(p)
	}
	names := lo.Map(n.fields, func(f field, _ int) string { return f.name })
	if len(path) == 1 {
		return fmt.Errorf("unknown key %s; the top-level keys are %s", key, strings.Join(names, ", "))
	}
	return fmt.Errorf("unknown key %s; %s has %s", key, strings.Join(path[:len(path)-1], "."), strings.Join(names, ", "))
}

// Nearest is the known key, or name, that key was most likely meant to be: one with few letters changed, or else the only one
// whose last part is the same; "" if there is neither.
func Nearest(known []string, key string) string {
	if len(known) == 0 {
		return ""
	}
	distance := func(k string) int { return editDistance(fold(k), fold(key)) }
	best := slices.MinFunc(known, func(a, b string) int { return cmp.Compare(distance(a), distance(b)) })
	if distance(best) <= max(1, len(fold(key))/4) {
		return best
	}
	same := lo.Filter(known, func(k string, _ int) bool { return last(k) == last(key) })
	if len(same) == 1 {
		return same[0]
	}
	return ""
}

func last(key string) string { return fold(key[strings.LastIndexByte(key, '.')+1:]) }

// fold drops what people mistake most: case, and which character divides words.
func fold(key string) string {
	return strings.NewReplacer(".", "", "_", "", "-", "").Replace(strings.ToLower(key))
}

// editDistance is the least number of insertions, deletions, replacements and swaps of neighbours that turn a into b, in bytes;
// none is changed twice (optimal string alignment).
func editDistance(a, b string) int {
	before, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			change := row[j]
			if a[i] != b[j] {
				change++
			}
			next[j+1] = min(change, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}

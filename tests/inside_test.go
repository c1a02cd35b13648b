package tests

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// climbs finds how far a relative path goes up, as it is written in a text or as the elements of filepath.Join.
var climbs = regexp.MustCompile(`((?:"\.\.",\s*)+"\.\.")|(?:^|[^\w./\\])((?:\.\./)*\.\.)(?:[^\w.]|$)`)

// climbsElsewhere are files whose paths are not relative to where they stand.
var climbsElsewhere = map[string]string{
	"engine/discover/probe_test.go": "what a link in sysfs holds",
	"tests/inside_test.go":          "what this test looks for",
}

// outside is the first path in a text that goes up more folders than its file is below the root.
func outside(file, text string) string {
	depth := strings.Count(file, "/")
	for _, m := range climbs.FindAllStringSubmatch(text, -1) {
		if strings.Count(m[1]+m[2], "..") > depth {
			return strings.TrimSpace(m[0])
		}
	}
	return ""
}

// TestHouseInsideTheClone holds that nothing reads what stands beside a clone: no path in a program, test, script or document goes
// above the root, no link leads out of it.
func TestHouseInsideTheClone(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "bin" || name == ".git" || name == ".task" || d.Name() == "__pycache__"):
			return fs.SkipDir
		case d.IsDir():
			return nil
		case d.Type()&fs.ModeSymlink != 0:
			if to, err := filepath.EvalSymlinks(path); err != nil || !strings.HasPrefix(to, root+"/") {
				t.Errorf("%s is a link out of the clone: %s %v", name, to, err)
			}
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil || !utf8.Valid(b) || climbsElsewhere[name] != "" {
			return err
		}
		files++
		if p := outside(name, string(b)); p != "" {
			t.Errorf("%s: %q leads out of the clone: bring what it needs in, to testdata, with its origin", name, p)
		}
		return nil
	})
	if err != nil || files < 500 {
		t.Errorf("%d files: %v", files, err)
	}
}

func TestOutside(t *testing.T) {
	for file, texts := range map[string]map[string]bool{
		"a/b/x_test.go": {
			`"../../../shared/x"`: true, `filepath.Join("..", "..", "..", "shared")`: true, `"../../shared"`: false, `filepath.Join("..", "..", "docs")`: false,
			`"../c/../d"`: false, "cat ../../../x": true, "(../../../x.md)": true, `cd "../../.."`: true, `strings.Cut(s, "..")`: false, "...": false, `"./..."`: false,
		},
		"run":   {`cd "$(dirname "$0")/.."`: false, "cp ../x .": true, `cd ..`: true},
		"b/run": {`cd "$(dirname "$0")/.."`: false, "cp ../x .": false, "cp ../../x .": true},
	} {
		for text, want := range texts {
			if got := outside(file, text); (got != "") != want {
				t.Errorf("%s in %s: %q", text, file, got)
			}
		}
	}
}

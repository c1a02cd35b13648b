package docs

import "testing"

// TestPrints: what is taken for the output that a page shows, and what is not.
func TestPrints(t *testing.T) {
	for _, c := range []struct {
		got  string
		want []string
		ok   bool
	}{
		{"a\nb\n", []string{"a", "b"}, true},
		{"a\nb\n", []string{"a"}, false},
		{"a\nb\n", []string{"b"}, false},
		{"a\nb\n", []string{"a", "…"}, true},
		{"a\nb\nc\n", []string{"…", "b", "…"}, true},
		{"a\nc\nb\n", []string{"a", "b", "…"}, false},
		{"a\nb\n", []string{"…", "c"}, false},
		{"took 12 ms\n", []string{"took … ms"}, true},
		{"took 12 s\n", []string{"took … ms"}, false},
		{"a   b\n", []string{"  a b"}, true},
		{"0 failed, 1 skipped\n", []string{"0 failed…"}, true},
		{"10 failed\n", []string{"0 failed…"}, false},
		{"(x.y)\n", []string{"(x.y)"}, true},
		{"(xzy)\n", []string{"(x.y)"}, false},
		{"anything\n", nil, true},
	} {
		if err := prints(c.got, c.want); (err == nil) != c.ok {
			t.Errorf("%q shown as %q: %v", c.got, c.want, err)
		}
	}
}

// TestBlocksAreFound: languages, marks, and blocks within lists.
func TestBlocksAreFound(t *testing.T) {
	all, err := blocks("p.md", "a\n```sh needs=cc norun=\"no one is there\"\nls\n```\n1. b\n   ```console fails\n   $ x\n   y\n   $ z\n   ```\n")
	if err != nil || len(all) != 2 {
		t.Fatalf("%d blocks, %v", len(all), err)
	}
	if b := all[0]; b.language != "sh" || b.line != 2 || b.marks["needs"] != "cc" || b.marks["norun"] != "no one is there" || b.text != "ls\n" {
		t.Errorf("the first is %+v", b)
	}
	if s := all[1].steps(); !all[1].is("fails") || len(s) != 2 || s[0].command != "x" || len(s[0].output) != 1 || s[0].output[0] != "y" {
		t.Errorf("the second is %+v with %+v", all[1], s)
	}
	if _, err := blocks("p.md", "```sh\nls\n"); err == nil {
		t.Error("a block that does not end is no error")
	}
}

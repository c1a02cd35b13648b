package backend_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/backend"
)

func TestBounded(t *testing.T) {
	long := strings.Repeat("é", 1<<20)
	for name, r := range map[string]backend.Reason{
		"words": {Code: backend.Other, Text: "it\nhas \x1b[2J"}, "observed": {Code: backend.Arch, Observed: long, Required: "9.0"},
		"required": {Code: backend.Arch, Required: long}, "text": {Code: backend.Other, Text: long}, "all": {Code: backend.Other, Observed: long, Required: long, Text: long},
	} {
		b := r.Bounded()
		if n := len(b.Observed) + len(b.Required) + len(b.Text); n > backend.MaxReasonBytes || b.Code != r.Code || r.Text != "" && b.Text == "" {
			t.Errorf("%s: %d bytes, %+.80v", name, n, b)
		}
		if diff := cmp.Diff(b, b.Bounded()); diff != "" {
			t.Errorf("%s is cut again: %s", name, diff)
		}
		if s := b.String(); strings.ContainsAny(s, "\x1b\n") {
			t.Errorf("%s: %q", name, s)
		}
	}
}

func TestBoundedVerdict(t *testing.T) {
	for _, n := range []int{0, 1, 16, 17, 18, 400_000} {
		v := backend.Declined(slices.Repeat([]backend.Reason{backend.Because(backend.Arch, "7.0", "9.0")}, n)...)
		b := v.Bounded()
		if want := min(n, backend.MaxReasons+1); len(b.Reasons) != want || b.Kind != backend.Decline || len(v.Reasons) != n {
			t.Errorf("%d reasons become %d, want %d", n, len(b.Reasons), want)
		}
		if n > backend.MaxReasons+1 {
			if last := b.Reasons[backend.MaxReasons].String(); last != fmt.Sprintf("OTHER (and %d more reasons)", n-backend.MaxReasons) {
				t.Errorf("%d reasons: %q", n, last)
			}
		}
		if diff := cmp.Diff(b, b.Bounded()); diff != "" {
			t.Errorf("%d reasons are cut again: %s", n, diff)
		}
	}
}

func TestReasonForALongError(t *testing.T) {
	r := backend.ReasonFor(errors.New("\x1b[2J" + strings.Repeat("x", 1<<20)))
	if len(r.Text) != backend.MaxReasonBytes || !strings.HasPrefix(r.Text, `\u001b[2Jxx`) || !strings.HasSuffix(r.Text, "x…") {
		t.Errorf("%d bytes, %.20q", len(r.Text), r.Text)
	}
}

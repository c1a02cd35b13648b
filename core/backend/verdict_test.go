package backend_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/backend"
)

func TestCompareVersions(t *testing.T) {
	ascending := []string{"", "1", "2.9", "2.23.4", "2.28.9", "2.29", "10.0", "550", "570.86.10", "570.124"}
	for i, a := range ascending {
		for j, b := range ascending {
			got := backend.CompareVersions(a, b)
			if sign(got) != sign(i-j) {
				t.Errorf("%q against %q: %d", a, b, got)
			}
		}
	}
	for _, equal := range [][2]string{{"2.23", "2.23.0"}, {"", "0.0"}, {"2.x", "2.0"}, {"-5", "0"}, {"99999999999999999999", "0"}} {
		if got := backend.CompareVersions(equal[0], equal[1]); got != 0 {
			t.Errorf("%q against %q: %d, want 0", equal[0], equal[1], got)
		}
	}
	if backend.CompareVersions("9223372036854775807", "1") <= 0 {
		t.Error("the largest number is not newer than 1")
	}
}

func sign(n int) int { return max(-1, min(1, n)) }

func TestRangeContainsWhatItsBoundsSay(t *testing.T) {
	r := backend.Range{Min: 10, Max: 30, Multiple: 8}
	var held []int64
	for n := int64(0); n < 50; n++ {
		if r.Contains(n) {
			held = append(held, n)
		}
	}
	if diff := cmp.Diff([]int64{16, 24}, held); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	all := backend.AllBytes()[0]
	if !all.Contains(1) || !all.Contains(backend.NoLimit) || all.Contains(0) {
		t.Errorf("%s does not hold 1 to no limit", all)
	}
}

// TestIntersectAgainstCounting compares with the counts that both ranges hold.
func TestIntersectAgainstCounting(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	random := func() backend.Range {
		return backend.Range{Min: rnd.Int64N(40), Max: rnd.Int64N(40), Multiple: rnd.Int64N(9)}
	}
	for range 20_000 {
		a, b := random(), random()
		both, ok := a.Intersect(b)
		found := false
		for n := int64(1); n <= 50; n++ {
			want := a.Contains(n) && b.Contains(n)
			found = found || want
			if got := both.Contains(n); got != want {
				t.Fatalf("seed %d: %+v and %+v give %+v, which holds %d: %v", seed, a, b, both, n, got)
			}
		}
		if ok != found {
			t.Fatalf("seed %d: %+v and %+v give %+v, ok is %v", seed, a, b, both, ok)
		}
		if a.Empty() == (a.Validate() == nil) && a.Min > 0 {
			t.Fatalf("seed %d: %+v: Empty is %v, Validate %v", seed, a, a.Empty(), a.Validate())
		}
	}
}

func TestIntersectOfLargeMultiples(t *testing.T) {
	of := func(m int64) backend.Range { return backend.Range{Min: 1, Max: backend.NoLimit, Multiple: m} }
	for _, c := range []struct {
		a, b int64
		want int64 // 0: no count is a multiple of both
	}{
		{1 << 40, 1 << 41, 1 << 41},
		{1 << 40, 3, 3 << 40},
		{1<<40 + 1, 1<<40 - 1, 0},         // least common multiple 2^80 - 1
		{1 << 62, 3, 0},                   // 3·2^62, just over
		{1 << 32, 1<<32 + 1, 0},           // 2^64 + 2^32, which would wrap to a small number
		{math.MaxInt64, 7, math.MaxInt64}, // 7 divides 2^63 - 1
		{math.MaxInt64, 2, 0},
	} {
		both, ok := of(c.a).Intersect(of(c.b))
		if ok != (c.want != 0) || ok && both.Multiple != c.want {
			t.Errorf("multiples of %d and %d: got %+v, ok %v; want multiples of %d", c.a, c.b, both, ok, c.want)
		}
	}
}

func TestSize(t *testing.T) {
	for bytes, want := range map[int64]string{
		0: "0 B", 1: "1 B", 1023: "1023 B", 1024: "1 KiB", 1025: "1025 B", 14 << 10: "14 KiB", 1<<20 + 1024: "1025 KiB",
		8 << 20: "8 MiB", 1 << 30: "1 GiB", 3 << 40: "3072 GiB",
	} {
		if got := backend.Size(bytes); got != want {
			t.Errorf("%d: got %q, want %q", bytes, got, want)
		}
	}
}

func TestRangeString(t *testing.T) {
	for want, r := range map[string]backend.Range{
		"all sizes":                     backend.AllBytes()[0],
		"all sizes (multiples of 16 B)": {Min: 1, Max: backend.NoLimit, Multiple: 16},
		"1 B to 64 KiB":                 {Min: 1, Max: 64 << 10},
		"64 KiB and more":               {Min: 64 << 10, Max: backend.NoLimit, Multiple: 1},
	} {
		if got := r.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestVerdictValidate(t *testing.T) {
	good := backend.Because(backend.WorldSize, "3", "2")
	tooMany := make([]backend.Range, backend.MaxRanges+1)
	for i := range tooMany {
		tooMany[i] = backend.Range{Min: int64(i + 1), Max: int64(i + 1)}
	}
	for _, c := range []struct {
		v    backend.Verdict
		want string // part of the error; "" for none
	}{
		{backend.Accepted(backend.AllBytes()...), ""},
		{backend.Accepted(tooMany[1:]...), ""},
		{backend.Declined(good), ""},
		{backend.Verdict{Kind: backend.Unknown, Reasons: []backend.Reason{good}}, ""},
		{backend.Declined(backend.Reason{Code: backend.Other, Text: "why"}), ""},
		{backend.Accepted(), "without a byte range"},
		{backend.Accepted(tooMany...), "257 byte ranges"},
		{backend.Accepted(backend.Range{}), "impossible byte range"},
		{backend.Accepted(backend.Range{Min: 1, Max: 10}, backend.Range{Min: 5, Max: 4}), "impossible byte range"},
		{backend.Accepted(backend.Range{Min: 1, Max: 10, Multiple: -8}), "impossible byte range"},
		{backend.Accepted(backend.Range{Min: 5, Max: 7, Multiple: 4}), "no multiple of 4"},
		{backend.Declined(), "decline without a reason"},
		{backend.Verdict{Kind: backend.Unknown}, "unknown without a reason"},
		{backend.Declined(good, backend.Reason{Code: "NOT_A_CODE"}), `"NOT_A_CODE"`},
		{backend.Declined(backend.Reason{}), "unknown reason code"},
		{backend.Declined(backend.Reason{Code: backend.Other}), "OTHER without a text"},
		{backend.Verdict{Kind: backend.NotAsked}, `"not_asked"`},
		{backend.Verdict{Kind: "maybe"}, `"maybe"`},
		{backend.Verdict{}, "unknown verdict"},
	} {
		err := c.v.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got error %v, want %q", c.v.Reasons, err, c.want)
		}
	}
}

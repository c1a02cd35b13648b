package bench

import (
	"slices"
	"strings"
	"testing"
)

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]int64{
		"8": 8, "0": 0, "64B": 64, "14K": 14 << 10, "14KiB": 14 << 10, "64M": 64 << 20, "1MiB": 1 << 20, "2G": 2 << 30, "1GiB": 1 << 30,
	} {
		if got, err := ParseBytes(text); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "K", "8k", "8KB", "-1", "1.5M", "8 K", "9999999999G", "8iB", "0x10"} {
		if got, err := ParseBytes(text); err == nil {
			t.Errorf("%q: %d, want an error", text, got)
		}
	}
}

func TestSizes(t *testing.T) {
	for name, c := range map[string]struct {
		least, most, factor, step int64
		want                      []int64
	}{
		"factor":                    {8, 64, 2, 0, []int64{8, 16, 32, 64}},
		"factor beyond":             {8, 100, 4, 0, []int64{8, 32}},
		"step":                      {8, 24, 0, 8, []int64{8, 16, 24}},
		"step beyond":               {8, 25, 0, 16, []int64{8, 24}},
		"one":                       {7, 7, 0, 0, []int64{7}},
		"no overflow":               {1 << 61, 1<<62 + 1, 2, 0, []int64{1 << 61, 1 << 62}},
		"factor larger than all":    {3, 5, 1 << 40, 0, []int64{3}},
		"step larger than the span": {3, 5, 0, 1 << 40, []int64{3}},
	} {
		got, err := Sizes(c.least, c.most, c.factor, c.step)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v, want %v", name, got, err, c.want)
		}
	}
	for want, c := range map[string][4]int64{
		"needs at least 1":            {0, 8, 2, 0},
		"smaller than the smallest":   {16, 8, 2, 0},
		"factor of 1 gives no next":   {8, 16, 1, 0},
		"factor of -2 gives no next":  {8, 16, -2, 0},
		"step of 0 bytes gives no ne": {8, 16, 0, 0},
		"more than 10000 sizes":       {1, 1 << 20, 0, 1},
	} {
		if got, err := Sizes(c[0], c[1], c[2], c[3]); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %d sizes, error %v, want %q", c, len(got), err, want)
		}
	}
}

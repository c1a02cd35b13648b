package config

import (
	"math"
	"strings"
	"testing"
)

func TestParseSize(t *testing.T) {
	for text, want := range map[string]Size{
		"0B": 0, "1B": 1, "64KiB": 65536, "64 KiB": 65536, "4GiB": 4 << 30, "3MiB": 3 << 20, "007KiB": 7 << 10,
		"9223372036854775807B": math.MaxInt64, "8589934591GiB": 8589934591 << 30,
	} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("%s: %d, error %v, want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                              "not a number with a unit",
		"KiB":                           "not a number with a unit",
		"many":                          "not a number with a unit",
		"64":                            `write "64B"`,
		"-1":                            "is negative",
		"-64KiB":                        "is negative",
		"+64KiB":                        "not a number with a unit",
		"1.5MiB":                        "not a whole number",
		"1,5MiB":                        "not a whole number",
		"0x10B":                         "not a number with a unit",
		"1e3B":                          "not a number with a unit",
		"1_000B":                        "not a number with a unit",
		" 1B":                           "not a number with a unit",
		"64K":                           "did you mean KiB?",
		"64k":                           "did you mean KiB?",
		"64KB":                          "did you mean KiB?",
		"64kib":                         "did you mean KiB?",
		"64MB":                          "did you mean MiB?",
		"64Gb":                          "did you mean GiB?",
		"64TiB":                         "use B, KiB, MiB or GiB",
		"64b":                           "use B, KiB, MiB or GiB",
		"64KiBB":                        "use B, KiB, MiB or GiB",
		"64 bytes":                      "not a number with a unit",
		"8589934592GiB":                 "more than the 9223372036854775807 bytes",
		"9223372036854775808B":          "more than the 9223372036854775807 bytes",
		strings.Repeat("9", 40) + "KiB": "more than the 9223372036854775807 bytes",
	} {
		if got, err := ParseSize(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %d, error %v, want %q", text, got, err, want)
		}
	}
}

func TestSizeText(t *testing.T) {
	for size, want := range map[Size]string{0: "0B", 1000: "1000B", 1536 * KiB: "1536KiB", 4 * GiB: "4GiB", 2048 * GiB: "2048GiB"} {
		if got := size.String(); got != want {
			t.Errorf("%d: %s, want %s", int64(size), got, want)
		}
		var back Size
		if err := back.UnmarshalText([]byte(want)); err != nil || back != size {
			t.Errorf("%s reads back as %d, error %v", want, back, err)
		}
	}
}

// FuzzParseSize: what is accepted is not negative and reads back from its own text; a bare number is not accepted.
func FuzzParseSize(f *testing.F) {
	for _, s := range []string{"64KiB", "1B", "9223372036854775807B", "-5GiB", "1.5MiB", "64", "", "8589934592GiB", "7 MiB "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		size, err := ParseSize(text)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q: the error has several lines: %v", text, err)
			}
			return
		}
		if size < 0 || digits(text) {
			t.Errorf("%q is accepted as %d", text, size)
		}
		if back, err := ParseSize(size.String()); err != nil || back != size {
			t.Errorf("%q is %d, but %s is %d, error %v", text, size, size, back, err)
		}
	})
}

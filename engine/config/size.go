package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes, never negative once parsed. As a flag (it is a pflag.Value) a bare number means bytes; as
// text in a file or the environment a unit is needed.
type Size int64

// The units; there are no others.
const (
	Byte Size = 1
	KiB       = 1024 * Byte
	MiB       = 1024 * KiB
	GiB       = 1024 * MiB
)

// units from largest to smallest, as String tries them.
var units = []struct {
	name string
	size Size
}{{"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}, {"B", Byte}}

// ParseSize reads a whole number with a unit: B, KiB, MiB or GiB. Decimal units and single letters are refused, because
// people disagree on what they mean.
func ParseSize(text string) (Size, error) {
	if digits(text) {
		return 0, fmt.Errorf(`size %s has no unit; write "%sB", or use KiB, MiB or GiB`, text, text)
	}
	return parseSize(text)
}

// parseSize is ParseSize, with a bare number meaning bytes.
func parseSize(text string) (Size, error) {
	number := strings.TrimRight(text, "BKMGTPEkmgtpeib ")
	unit := strings.TrimSpace(text[len(number):])
	switch {
	case strings.HasPrefix(number, "-"):
		return 0, fmt.Errorf("size %q is negative", text)
	case strings.ContainsAny(number, ".,") && digits(strings.NewReplacer(".", "", ",", "").Replace(number)):
		return 0, fmt.Errorf("size %q is not a whole number; use a smaller unit, such as 1536KiB for one and a half MiB", text)
	case !digits(number):
		return 0, fmt.Errorf("size %q is not a number with a unit, such as 64KiB", text)
	}
	size, err := unitSize(unit)
	if err != nil {
		return 0, fmt.Errorf("size %q: %w", text, err)
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n > math.MaxInt64/int64(size) {
		return 0, fmt.Errorf("size %q is more than the %d bytes that can be counted", text, int64(math.MaxInt64))
	}
	return Size(n) * size, nil
}

func unitSize(unit string) (Size, error) {
	if unit == "" {
		return Byte, nil
	}
	for _, u := range units {
		if unit == u.name {
			return u.size, nil
		}
	}
	for _, u := range units[:3] { // "K", "KB", "kib": all would be read as KiB by some and as 1000 by others
		if strings.EqualFold(unit[:1], u.name[:1]) && len(unit) <= 3 {
			return 0, fmt.Errorf("unknown unit %q; units are powers of 1024: did you mean %s?", unit, u.name)
		}
	}
	return 0, fmt.Errorf("unknown unit %q; use B, KiB, MiB or GiB", unit)
}

// digits reports whether s is one or more decimal digits.
func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// String writes the size with the largest unit that divides it, such as "4GiB" or "1000B"; ParseSize reads it back.
func (s Size) String() string {
	for _, u := range units {
		if s != 0 && s%u.size == 0 {
			return strconv.FormatInt(int64(s/u.size), 10) + u.name
		}
	}
	return "0B"
}

// MarshalText writes what String does.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText is ParseSize.
func (s *Size) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSize(string(text))
	return err
}

// Set reads a flag's value: as ParseSize, but a bare number means bytes.
func (s *Size) Set(text string) error {
	v, err := parseSize(text)
	if err == nil {
		*s = v
	}
	return err
}

// Type is what a flag's help calls the value.
func (*Size) Type() string { return "size" }

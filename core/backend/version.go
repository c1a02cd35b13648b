package backend

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/samber/lo"
)

// CompareVersions orders dotted numbers such as "570.86.10": -1 if a is older than b, 0 if equal, 1 if newer; what is
// not a number counts as 0.
func CompareVersions(a, b string) int {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(as), len(bs)) {
		if c := cmp.Compare(number(lo.NthOrEmpty(as, i)), number(lo.NthOrEmpty(bs, i))); c != 0 {
			return c
		}
	}
	return 0
}

func number(s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return 0
	}
	return n
}

// HasCapability reports whether a capability is one of those that Requirements.Capabilities spells.
func HasCapability(wanted []string, have string) bool {
	return lo.SomeBy(wanted, func(w string) bool { return matchesCapability(w, have) })
}

// matchesCapability compares with a capability as Requirements spells it. What is not a number, such as "gfx942", only
// matches itself.
func matchesCapability(wanted, have string) bool {
	if wanted == have {
		return true
	}
	if _, err := strconv.ParseFloat(have, 64); err != nil {
		return false
	}
	if least, ok := strings.CutSuffix(wanted, "+"); ok {
		return CompareVersions(have, least) >= 0
	}
	if most, ok := strings.CutSuffix(wanted, "-"); ok {
		return CompareVersions(have, most) <= 0
	}
	major, ok := strings.CutSuffix(wanted, ".x")
	return ok && major == strings.SplitN(have, ".", 2)[0]
}

package rank

import (
	"math"
	"strings"
	"testing"

	"github.com/weir-project/weir/core/collective"
)

// TestCheckHost has counts whose bytes wrap around be refused, and the largest that do not pass.
func TestCheckHost(t *testing.T) {
	for _, c := range []struct {
		dst, src uintptr
		count    int64
		dataType collective.DataType
		want     string // "": right
	}{
		{4096, 8192, 1, collective.Float32, ""},
		{4096, 8192, math.MaxInt64 / 4, collective.Float32, ""}, // no machine has it, but no arithmetic goes wrong
		{4096, 8192, math.MaxInt64/4 + 1, collective.Float32, "elements"},
		{4096, 8192, 1<<62 + 1, collective.Float32, "elements"}, // 4 bytes, modulo 1<<64
		{4096, 8192, math.MinInt64, collective.Int8, "elements"},
		{4096, 8192, 0, collective.Int8, "elements"},
		{4096, math.MaxUint - 7, 1, collective.Float64, "elements"}, // its last byte is the last of all
		{4096, math.MaxUint - 15, 1, collective.Float64, ""},
		{0, 8192, 1, collective.Float32, "address 0"},
		{4096, 4092, 1, collective.Float32, "address 4092"},
		{4098, 8192, 1, collective.Float32, "multiple of 4"},
		{4098, 8192, 1, collective.Float16, ""},
		{4096, 8192, 1, collective.NumDataTypes, "unknown data type"},
	} {
		err := checkHost(c.dst, c.src, c.count, c.dataType)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("checkHost(%#x, %#x, %d, %s) = %v, want %q", c.dst, c.src, c.count, c.dataType, err, c.want)
		}
	}
}

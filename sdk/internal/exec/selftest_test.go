package exec

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
)

// TestPatternsAreExact: partial sums in rank order stay whole numbers that bfloat16 holds, and results vary.
func TestPatternsAreExact(t *testing.T) {
	for _, op := range []collective.Op{collective.Sum, collective.Avg, collective.Prod} {
		for _, world := range []int{1, 2, 3, 7, 64, 255, 256} {
			seen := map[int64]bool{}
			for i := range period {
				total := patternValue(op, 0, world, i)
				for r := 1; r < world; r++ {
					v := patternValue(op, r, world, i)
					if op == collective.Prod {
						total *= v
					} else {
						total += v
					}
					if total < -256 || total > 256 {
						t.Fatalf("%s of %d ranks: partial result %d", op, world, total)
					}
				}
				if op == collective.Avg && total%int64(world) != 0 {
					t.Fatalf("avg of %d ranks is not whole", world)
				}
				seen[total] = true
			}
			if len(seen) < 2 {
				t.Errorf("%s of %d ranks: every result is the same", op, world)
			}
		}
	}
}

// TestSelfTestFinds gives the self-test a run that is wrong in some way, on rank 1 of 2 ranks.
func TestSelfTestFinds(t *testing.T) {
	const world, rank = 2, 1
	for name, c := range map[string]struct {
		corrupt func(dst, src []byte)
		want    string
	}{
		"nothing":          {func(dst, src []byte) {}, ""},
		"a wrong element":  {func(dst, src []byte) { dst[40]++ }, "element 40 is "},
		"nothing written":  {func(dst, src []byte) { fill(dst, []byte{0xa5}) }, "element "},
		"a changed source": {func(dst, src []byte) { src[3]++ }, "source was changed"},
		"a shift": {func(dst, src []byte) {
			if len(dst) > 64 {
				copy(dst[64:], dst)
			}
		}, "element 6"},
	} {
		for _, op := range collective.Ops() {
			run := func(call Call) error {
				dst, src := unsafe.Slice((*byte)(call.Dst), call.Bytes), unsafe.Slice((*byte)(call.Src), call.Bytes)
				inputs := [][]byte{aligned(call.Bytes), aligned(call.Bytes)}
				fill(inputs[0], pattern(call.Class, 0, world))
				copy(inputs[1], src)
				copy(dst, Reference(call.Class.DataType, op, inputs))
				if call.Bytes > 64 && (call.Dst != call.Src || name != "a changed source") {
					c.corrupt(dst, src)
				}
				return nil
			}
			err := SelfTest(run, rank, world, class(collective.Int8, op), []backend.Range{{Min: 1, Max: 20000}}, []int64{4096}, nil)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("%s, %s: %v", name, op, err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%s, %s: %v, want %q", name, op, err, c.want)
			case err != nil && !strings.Contains(err.Error(), "rank 1 of 2, int8 "+op.String()):
				t.Errorf("%v does not say where", err)
			}
		}
	}
}

func TestTestSizes(t *testing.T) {
	for name, c := range map[string]struct {
		dt     collective.DataType
		ranges []backend.Range
		edges  []int64
		want   []int64
	}{
		"all":             {collective.Float32, backend.AllBytes(), []int64{64}, []int64{4, 8, 60, 64, 68, 132, 316, 996, 1000}},
		"no whole one":    {collective.Int64, []backend.Range{{Min: 1, Max: 7}}, nil, nil},
		"odd bounds":      {collective.Float32, []backend.Range{{Min: 5, Max: 14}}, nil, []int64{8, 12}},
		"multiple":        {collective.Float32, []backend.Range{{Min: 1, Max: 100, Multiple: 48}}, nil, []int64{48, 96}},
		"above the limit": {collective.Int8, []backend.Range{{Min: 5000, Max: 1 << 40}}, []int64{64}, []int64{5000}},
		"two ranges":      {collective.Int8, []backend.Range{{Min: 1, Max: 2}, {Min: 9, Max: 9}}, nil, []int64{1, 2, 9}},
	} {
		t.Run(name, func(t *testing.T) {
			got := TestSizes(c.dt, c.ranges, c.edges, 1000)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWithin(t *testing.T) {
	for _, c := range []struct{ sizes, want []int64 }{
		{[]int64{4, 100, 128, 132}, []int64{4, 100, 128}}, {[]int64{1 << 20, 2 << 20}, []int64{128}}, {nil, []int64{}},
	} {
		if diff := cmp.Diff(c.want, within(c.sizes, 128)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.sizes, diff)
		}
	}
}

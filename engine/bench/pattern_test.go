package bench

import (
	"fmt"
	"testing"

	"github.com/weir-project/weir/core/collective"
)

func classes() []collective.Class {
	return Spec{DataTypes: collective.DataTypes(), Ops: collective.Ops()}.Classes()
}

// TestPatternsAreExact: whole numbers up to 256 are exact in every floating-point type, so no order of additions rounds.
func TestPatternsAreExact(t *testing.T) {
	for _, op := range collective.Ops() {
		for _, world := range []int{1, 2, 3, 4, 5, 7, 8, 16, 33, 64, 85} {
			for i := range period {
				sum, product := int64(0), int64(1)
				for rank := range world {
					v := value(op, rank, world, i)
					if v < 0 {
						t.Fatalf("%s, %d ranks, element %d: %d, which unsigned types do not hold", op, world, i, v)
					}
					sum += v
					product *= v
				}
				if (op == collective.Sum || op == collective.Avg) && sum > 256 || op == collective.Prod && product > 127 {
					t.Fatalf("%s, %d ranks, element %d: result %d or %d is not exact in every type", op, world, i, sum, product)
				}
				if op == collective.Avg && sum%int64(world) != 0 {
					t.Fatalf("%d ranks, element %d: the average of %d is not whole", world, i, sum)
				}
			}
		}
	}
}

// TestPatternsFindMistakes: what could happen in a wrong all-reduce must not look right.
func TestPatternsFindMistakes(t *testing.T) {
	for _, class := range classes() {
		t.Run(fmt.Sprintf("%s %s", class.DataType, class.Op), func(t *testing.T) {
			const world, elements = 4, 2*period + 17
			p := NewPattern(class, 1, world)
			size := class.DataType.Size()
			right := make([]byte, elements*size)
			for n := 0; n < len(right); {
				n += copy(right[n:], p.expected)
			}
			if w := p.Wrong(right); w != 0 {
				t.Fatalf("%d of the right elements are wrong", w)
			}
			own := make([]byte, elements*size)
			p.Fill(own)
			if w := p.Wrong(own); w == 0 {
				t.Error("a rank's own input passes for the result")
			}
			shifted := append(append([]byte(nil), right[size:]...), right[:size]...)
			if w := p.Wrong(shifted); w == 0 {
				t.Error("the result one element further passes for the result")
			}
			right[len(right)-1] ^= 1
			if w := p.Wrong(right); w != 1 {
				t.Errorf("%d wrong elements, want the last one", w)
			}
		})
	}
}

// TestPatternsOfKnownValues: two ranks' float32 and int8, which wraps around.
func TestPatternsOfKnownValues(t *testing.T) {
	sum := collective.Class{DataType: collective.Float32, Op: collective.Sum}
	for i, want := range []int64{13, 27, 41} { // 7i + 7i+13
		if got := result(sum, 2, i); got != want {
			t.Errorf("element %d of the sum: %d, want %d", i, got, want)
		}
	}
	for dt, want := range map[collective.DataType]int64{collective.Int64: 100, collective.Int8: (200 - 256) / 2} {
		if got := result(collective.Class{DataType: dt, Op: collective.Avg}, 2, 99); got != want {
			t.Errorf("average in %s: %d, want %d", dt, got, want)
		}
	}
}

func TestCellsHoldWholeElements(t *testing.T) {
	s := Spec{Sizes: []int64{1, 4, 9, 16}, DataTypes: []collective.DataType{collective.Int8, collective.Float64}, Ops: []collective.Op{collective.Sum}}
	var got []string
	for _, class := range s.Classes() {
		for _, c := range s.Cells(class) {
			got = append(got, fmt.Sprintf("%s %d/%d", c.DataType, c.Bytes, c.Count))
		}
	}
	if want := "[int8 1/1 int8 4/4 int8 9/9 int8 16/16 float64 8/1 float64 16/2]"; fmt.Sprint(got) != want || s.Total() != 6 {
		t.Errorf("%v, want %s", got, want)
	}
}

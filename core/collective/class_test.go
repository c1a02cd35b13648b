package collective_test

import (
	"encoding"
	"fmt"
	"strings"
	"testing"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/topology"
)

func TestClassIndexIsABijection(t *testing.T) {
	seen := map[int]collective.Class{}
	for _, m := range collective.Memories() {
		for _, captured := range []bool{false, true} {
			for _, registered := range []bool{false, true} {
				for _, d := range collective.DataTypes() {
					for _, o := range collective.Ops() {
						c := collective.Class{Memory: m, DataType: d, Op: o, Captured: captured, Registered: registered}
						i := c.Index()
						if other, taken := seen[i]; taken {
							t.Errorf("%s and %s are both number %d", c, other, i)
						}
						if i < 0 || i >= collective.NumClasses {
							t.Errorf("%s is number %d of %d", c, i, collective.NumClasses)
						}
						if back := collective.ClassAt(i); back != c {
							t.Errorf("%s is number %d, which is %s", c, i, back)
						}
						seen[i] = c
					}
				}
			}
		}
	}
	if len(seen) != collective.NumClasses {
		t.Errorf("%d classes, want %d", len(seen), collective.NumClasses)
	}
}

func TestClassValidate(t *testing.T) {
	good := collective.Class{Memory: collective.CUDA, DataType: collective.BFloat16, Op: collective.Max, Captured: true}
	if err := good.Validate(); err != nil {
		t.Errorf("%s: %v", good, err)
	}
	for want, c := range map[string]collective.Class{
		"memory kind":   {Memory: collective.NumMemories},
		"data type":     {DataType: collective.NumDataTypes},
		"reduce op":     {Op: collective.NumOps},
		"host memory":   {Captured: true},
		"DataType(200)": {DataType: 200},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want one about %s", c, err, want)
		}
	}
}

func TestNamesRoundTrip(t *testing.T) {
	for _, v := range collective.DataTypes() {
		roundTrip(t, v, new(collective.DataType))
		if v.Size() < 1 {
			t.Errorf("%s has size %d", v, v.Size())
		}
	}
	for _, v := range collective.Ops() {
		roundTrip(t, v, new(collective.Op))
	}
	for _, v := range collective.Memories() {
		roundTrip(t, v, new(collective.Memory))
	}
}

func roundTrip[T interface {
	comparable
	encoding.TextMarshaler
	fmt.Stringer
}, P interface {
	*T
	encoding.TextUnmarshaler
}](t *testing.T, v T, back P,
) {
	t.Helper()
	text, err := v.MarshalText()
	if err != nil || string(text) != v.String() {
		t.Fatalf("%v is written %q, %v", v, text, err)
	}
	if err := back.UnmarshalText(text); err != nil || *back != v {
		t.Errorf("%q is read as %v, %v", text, *back, err)
	}
}

func TestUnmarshalText(t *testing.T) {
	for text, want := range map[string]collective.DataType{
		"half": collective.Float16, "fp16": collective.Float16, "f16": collective.Float16, "bf16": collective.BFloat16,
		"float": collective.Float32, "fp32": collective.Float32, "f32": collective.Float32,
		"double": collective.Float64, "fp64": collective.Float64, "f64": collective.Float64,
	} {
		var d collective.DataType
		if err := d.UnmarshalText([]byte(text)); err != nil || d != want {
			t.Errorf("%q is read as %v, %v; want %v", text, d, err, want)
		}
	}
	for _, text := range []string{"", "Float32", "float8", "int", " sum", "SUM", "gpu"} {
		d, o, m := collective.Int8, collective.Max, collective.CUDA
		for _, target := range []encoding.TextUnmarshaler{&d, &o, &m} {
			err := target.UnmarshalText([]byte(text))
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", text)) || !strings.Contains(err.Error(), "want one of [") {
				t.Errorf("%T from %q: got error %v, want one that shows the text and the choices", target, text, err)
			}
		}
		if d != collective.Int8 || o != collective.Max || m != collective.CUDA {
			t.Errorf("a failed read of %q changed the value", text)
		}
	}
}

func TestInvalidValuesAreNotWritten(t *testing.T) {
	for _, v := range []encoding.TextMarshaler{collective.DataType(8), collective.Op(5), collective.Memory(2)} {
		if text, err := v.MarshalText(); err == nil {
			t.Errorf("%v was written as %q", v, text)
		}
	}
	if n := collective.DataType(99).Size(); n != 0 {
		t.Errorf("an invalid type has size %d", n)
	}
}

func TestFloat(t *testing.T) {
	for _, d := range collective.DataTypes() {
		if got, want := d.Float(), strings.Contains(d.String(), "float"); got != want {
			t.Errorf("%s: Float is %v", d, got)
		}
	}
}

func TestHostGroup(t *testing.T) {
	for _, n := range []int{1, 2, 8} {
		g := collective.HostGroup("g", n)
		if err := g.Validate(); err != nil || g.WorldSize() != n || g.Hosts() != 1 {
			t.Errorf("%d ranks: error %v, world size %d, %d hosts", n, err, g.WorldSize(), g.Hosts())
		}
	}
	g := collective.HostGroup("g", 4)
	if got := g.Worst(); got != (topology.Link{Class: topology.HostMemory}) {
		t.Errorf("worst link is %s", got)
	}
	if got := g.FullNVLink(); got != topology.No {
		t.Errorf("full NVLink is %s", got)
	}
	g.Ranks[3].Host = "other"
	if g.Hosts() != 2 {
		t.Errorf("%d hosts, want 2", g.Hosts())
	}
}

func TestGroupValidate(t *testing.T) {
	tooFewRows := collective.HostGroup("g", 3)
	tooFewRows.Links = tooFewRows.Links[:2]
	shortRow := collective.HostGroup("g", 3)
	shortRow.Links[1] = shortRow.Links[1][:2]
	for want, g := range map[string]collective.Group{
		"no ranks":          {ID: "g"},
		"2 rows of links":   tooFewRows,
		"row 1 has 2 links": shortRow,
	} {
		if err := g.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
}

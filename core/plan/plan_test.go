package plan

import (
	"slices"
	"strings"
	"testing"
)

func TestKinds(t *testing.T) {
	var kinds []Kind
	for _, p := range []Plan{&Schedule{}, &Kernel{}, &Library{}, &Worker{}} {
		kinds = append(kinds, p.Kind())
	}
	if !slices.Equal(kinds, Kinds()) {
		t.Errorf("the plans are of kinds %v, Kinds is %v", kinds, Kinds())
	}
}

func TestValidate(t *testing.T) {
	kernel := func(change func(*Kernel)) *Kernel {
		k := &Kernel{Image: []byte{1}, Buffer: DeviceBuffer, Launches: []Launch{{DataType: "float32", Min: 4, Max: 8, Function: "f", Grid: 1, Block: 1024}}}
		change(k)
		return k
	}
	for name, c := range map[string]struct {
		plan Plan
		want string // "" if it is valid
	}{
		"kernel":                {kernel(func(*Kernel) {}), ""},
		"kernel, no image":      {kernel(func(k *Kernel) { k.Image = nil }), "image of 0 bytes"},
		"kernel, huge image":    {kernel(func(k *Kernel) { k.Image = make([]byte, maxImage+1) }), "image of"},
		"kernel, no launches":   {kernel(func(k *Kernel) { k.Launches = nil }), "launch table of 0 rows"},
		"kernel, buffer":        {kernel(func(k *Kernel) { k.BufferBytes = -1 }), "buffer of -1"},
		"kernel, huge buffer":   {kernel(func(k *Kernel) { k.BufferBytes = maxBuffer + 1 }), "buffer of"},
		"kernel, no function":   {kernel(func(k *Kernel) { k.Launches[0].Function = "" }), "launch 0"},
		"kernel, no grid":       {kernel(func(k *Kernel) { k.Launches[0].Grid = 0 }), "launch 0"},
		"kernel, huge block":    {kernel(func(k *Kernel) { k.Launches[0].Block = 1025 }), "launch 0"},
		"kernel, empty range":   {kernel(func(k *Kernel) { k.Launches[0].Max = 3 }), "launch 0"},
		"kernel, no memory":     {kernel(func(k *Kernel) { k.Buffer = "" }), `unknown buffer memory ""`},
		"kernel, type":          {kernel(func(k *Kernel) { k.Launches[0].DataType = "complex" }), `launch 0: unknown data type "complex"`},
		"kernel, argument":      {kernel(func(k *Kernel) { k.Launches[0].Arguments = []Argument{ArgIn, "epoch"} }), `launch 0: unknown argument "epoch"`},
		"kernel, overlap":       {kernel(func(k *Kernel) { k.Launches = append(k.Launches, k.Launches[0]) }), "launches 0 and 1 both serve float32 of"},
		"kernel, shared memory": {kernel(func(k *Kernel) { k.Launches[0].SharedBytes = -1 }), "launch 0"},

		"library":                {&Library{Path: "/usr/lib/libnccl.so.2", Variant: "nccl"}, ""},
		"library, no path":       {&Library{Variant: "nccl"}, "not absolute"},
		"library, relative path": {&Library{Path: "libnccl.so.2", Variant: "nccl"}, "not absolute"},
		"library, variant":       {&Library{Path: "/lib/x", Variant: "gloo"}, "unknown variant"},

		"worker":               {&Worker{SlotBytes: 64, Slots: 1}, ""},
		"worker, no slot":      {&Worker{SlotBytes: 64}, "0 slots"},
		"worker, many slots":   {&Worker{SlotBytes: 64, Slots: MaxSlots + 1}, "slots"},
		"worker, odd slot":     {&Worker{SlotBytes: 65, Slots: 1}, "65 bytes"},
		"worker, tiny slot":    {&Worker{SlotBytes: 0, Slots: 1}, "0 bytes"},
		"worker, endless slot": {&Worker{SlotBytes: MaxTileBytes + 64, Slots: 1}, "bytes"},
	} {
		err := c.plan.Validate(2)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

package exec

import (
	"errors"
	"testing"

	"github.com/weir-project/weir/sdk/internal/device"
	"github.com/weir-project/weir/sdk/native/cuda"
	"github.com/weir-project/weir/tests/await"
)

// TestTrialsAtATime sets up another group's plan, and tries it, while a trial is captured, as threads that decide two groups at a
// time may: neither becomes part of the other.
func TestTrialsAtATime(t *testing.T) {
	const bytes = 64
	d := fakeDevice(t, "0")
	trial := func(captured bool, f device.Enqueue) *device.Trial {
		x := &device.Trial{Device: d, Captured: captured, Deadline: await.By(await.Plenty), Enqueue: f}
		if err := x.Reserve(bytes); err != nil {
			t.Fatal(err)
		}
		return x
	}
	fillWith := func(v byte) device.Enqueue {
		return func(dst, _ cuda.Pointer, bytes int64, s cuda.Stream) error { return d.API.FillAsync(dst, v, bytes, s) }
	}
	inner, innerOut := trial(false, fillWith(1)), make([]byte, bytes)
	outer, outerOut := trial(true, func(dst, src cuda.Pointer, bytes int64, s cuda.Stream) error {
		p, err := d.API.Alloc(bytes)
		if err != nil {
			return err
		}
		g, recorded := d.Record(func(s cuda.Stream) error { return d.API.FillAsync(p, 3, bytes, s) })
		return errors.Join(fillWith(2)(dst, src, bytes, s), d.Clear(p, bytes), recorded, d.API.DestroyGraph(g), inner.Run(innerOut, make([]byte, bytes)))
	}), make([]byte, bytes)
	if err := errors.Join(outer.Run(outerOut, make([]byte, bytes)), outer.Close(), inner.Close()); err != nil {
		t.Fatal(err)
	}
	if innerOut[bytes-1] != 1 || outerOut[bytes-1] != 2 {
		t.Errorf("the one has %v and the other %v, want ones and twos", innerOut, outerOut)
	}
	if err := (&device.Trial{Device: d}).Close(); err != nil {
		t.Errorf("a trial that was never begun: %v", err)
	}
}

package exec

import (
	"math"
	"slices"
	"unsafe"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/internal/device"
)

// SelfTestDevice is SelfTest for calls on device memory, which t makes. dead says that a call failed, rather than giving a
// wrong result: the ranks are then no longer in step.
func SelfTestDevice(t *device.Trial, rank, world int, class collective.Class, ranges []backend.Range, edges []int64) (dead bool, err error) {
	sizes := TestSizes(class.DataType, ranges, edges, selfTestLimit)
	if len(sizes) == 0 {
		return false, nil
	}
	if err := t.Reserve(slices.Max(sizes)); err != nil {
		return true, err
	}
	run := func(c Call) error {
		err := t.Run(unsafe.Slice((*byte)(c.Dst), c.Bytes), unsafe.Slice((*byte)(c.Src), c.Bytes))
		dead = err != nil
		return err
	}
	err = trial{run: run, class: class, rank: rank, world: world, near: nearly(class, world)}.trySizes(sizes, nil)
	return dead, err
}

// nearly is how far a result may be from the exact one: not at all, but for averages of floating-point numbers, where NCCL
// multiplies each input by the reciprocal of the world size, rounded, before it adds.
func nearly(class collective.Class, world int) func(got, want float64) bool {
	if class.Op != collective.Avg || !class.DataType.Float() {
		return nil
	}
	bits := map[collective.DataType]int{collective.Float16: 10, collective.BFloat16: 7, collective.Float32: 23, collective.Float64: 52}[class.DataType]
	// Each of the products and sums is rounded by at most a unit in the last place of the average, which is at most this.
	bound := 256 / float64(world) * math.Ldexp(1, -bits) * float64(world+1)
	return func(got, want float64) bool { return math.Abs(got-want) <= bound }
}

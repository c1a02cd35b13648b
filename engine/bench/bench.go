// Package bench is what an all-reduce benchmark measures by and shows: sizes, inputs with known results, statistics, tables.
package bench

import "github.com/weir-project/weir/core/collective"

// Spec is what all ranks are to run, in the same order on each.
type Spec struct {
	Sizes      []int64 // of messages, in bytes
	DataTypes  []collective.DataType
	Ops        []collective.Op
	Iterations int     // timed calls of a size; 0: as many as fill Seconds
	Seconds    float64 // about how long one timed loop takes when Iterations is 0
	Warmup     int     // calls before the timed ones
	Check      int     // calls whose results are checked
	OutOfPlace bool
	InPlace    bool
	Bind       bool // each rank to a core
	Memory     collective.Memory
	Launches   int  // in device memory: launches of a graph of the calls; 0: calls are made one by one
	Registered bool // buffers in registered memory
}

// Classes are the request classes of a spec: every data type with every op.
func (s Spec) Classes() []collective.Class {
	var all []collective.Class
	for _, dt := range s.DataTypes {
		for _, op := range s.Ops {
			all = append(all, collective.Class{Memory: s.Memory, DataType: dt, Op: op, Captured: s.Launches > 0, Registered: s.Registered})
		}
	}
	return all
}

// Cells are the sizes of a class that hold at least one whole element, each rounded down to whole elements.
func (s Spec) Cells(class collective.Class) []Cell {
	var cells []Cell
	element := int64(class.DataType.Size())
	for _, n := range s.Sizes {
		if count := n / element; count > 0 {
			cells = append(cells, Cell{Bytes: count * element, Count: count, DataType: class.DataType, Op: class.Op})
		}
	}
	return cells
}

// Total is the number of cells of all classes.
func (s Spec) Total() int {
	n := 0
	for _, c := range s.Classes() {
		n += len(s.Cells(c))
	}
	return n
}

// Cell is what was measured of one message size. Its columns are nil where the backend does not serve the size or the
// spec did not ask for them.
type Cell struct {
	Bytes      int64
	Count      int64 // elements
	DataType   collective.DataType
	Op         collective.Op
	Backend    string // that served it; "" if none does
	OutOfPlace *Column
	InPlace    *Column
}

// Columns are the measured columns.
func (c Cell) Columns() []*Column {
	var all []*Column
	for _, x := range []*Column{c.OutOfPlace, c.InPlace} {
		if x != nil {
			all = append(all, x)
		}
	}
	return all
}

// Best is the column that a comparison uses: out of place if it was measured, else in place, else nil.
func (c Cell) Best() *Column {
	if c.OutOfPlace != nil {
		return c.OutOfPlace
	}
	return c.InPlace
}

// AlgBW is the algorithm bandwidth in GB/s (10⁹ bytes) of a call that takes that many µs.
func AlgBW(bytes int64, microseconds float64) float64 {
	if microseconds <= 0 {
		return 0
	}
	return float64(bytes) / microseconds / 1e3
}

// BusBW is the bandwidth that each rank's link would need, as nccl-tests defines it for all-reduce: 2(n-1)/n of AlgBW.
func BusBW(bytes int64, microseconds float64, world int) float64 {
	return AlgBW(bytes, microseconds) * 2 * float64(world-1) / float64(world)
}

// AverageBusBW is the mean over all measured columns, in GB/s; 0 if there are none.
func AverageBusBW(cells []Cell, world int) float64 {
	sum, n := 0.0, 0
	for _, c := range cells {
		for _, x := range c.Columns() {
			sum += BusBW(c.Bytes, x.Time, world)
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}

// Wrong is the number of wrong elements in all cells.
func Wrong(cells []Cell) int64 {
	var n int64
	for _, c := range cells {
		for _, x := range c.Columns() {
			n += max(0, x.Wrong)
		}
	}
	return n
}

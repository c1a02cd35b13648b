// Package collective says what an all-reduce is asked to do: data type, reduce op, memory kind, and by which group of ranks.
package collective

import "fmt"

// DataType is the type of one element. Its values index arrays on the hot path, so they are small and never reordered.
type DataType uint8

// The data types, as NCCL names them.
const (
	Float32 DataType = iota
	Float64
	Float16
	BFloat16
	Int8
	Uint8
	Int32
	Int64

	NumDataTypes = 8
)

var dataTypes = [NumDataTypes]struct {
	name string
	size int
}{
	Float32:  {"float32", 4},
	Float64:  {"float64", 8},
	Float16:  {"float16", 2},
	BFloat16: {"bfloat16", 2},
	Int8:     {"int8", 1},
	Uint8:    {"uint8", 1},
	Int32:    {"int32", 4},
	Int64:    {"int64", 8},
}

// DataTypes lists every data type in order.
func DataTypes() []DataType {
	return []DataType{Float32, Float64, Float16, BFloat16, Int8, Uint8, Int32, Int64}
}

// Valid reports whether d is one of the data types.
func (d DataType) Valid() bool { return d < NumDataTypes }

// Size is the size of one element in bytes; 0 for an invalid type.
func (d DataType) Size() int {
	if !d.Valid() {
		return 0
	}
	return dataTypes[d].size
}

// Float reports whether d is a floating-point type.
func (d DataType) Float() bool { return d <= BFloat16 }

func (d DataType) String() string {
	if !d.Valid() {
		return fmt.Sprintf("DataType(%d)", uint8(d))
	}
	return dataTypes[d].name
}

// MarshalText writes the name, such as "bfloat16".
func (d DataType) MarshalText() ([]byte, error) { return marshal(d, d.Valid()) }

// UnmarshalText reads a name; the short forms of nccl-tests ("half", "float", "double") are understood too.
func (d *DataType) UnmarshalText(text []byte) error {
	short := map[string]DataType{
		"half": Float16, "fp16": Float16, "f16": Float16, "bf16": BFloat16,
		"float": Float32, "fp32": Float32, "f32": Float32, "double": Float64, "fp64": Float64, "f64": Float64,
	}
	if v, ok := short[string(text)]; ok {
		*d = v
		return nil
	}
	return unmarshal(d, text, "data type", DataTypes())
}

// Op is the reduce op applied across ranks, element by element.
//
// sum and prod of integers wrap around (two's complement), as NCCL's do. min and max ignore a NaN when another rank
// holds a number and are NaN only when every rank's element is (C's fmin and fmax, which NCCL uses), and take -0 to be
// less than +0. avg is the sum divided by the number of ranks: for floating-point types after the sum, rounded once
// (NCCL multiplies each input by 1/n first, so last bits may differ); for integers the wrapped sum, the quotient
// truncated toward zero.
type Op uint8

// The reduce ops, as NCCL defines them.
const (
	Sum Op = iota
	Prod
	Min
	Max
	Avg

	NumOps = 5
)

var ops = [NumOps]string{"sum", "prod", "min", "max", "avg"}

// Ops lists every reduce op in order.
func Ops() []Op { return []Op{Sum, Prod, Min, Max, Avg} }

// Valid reports whether o is one of the ops.
func (o Op) Valid() bool { return o < NumOps }

func (o Op) String() string {
	if !o.Valid() {
		return fmt.Sprintf("Op(%d)", uint8(o))
	}
	return ops[o]
}

// MarshalText writes the name, such as "sum".
func (o Op) MarshalText() ([]byte, error) { return marshal(o, o.Valid()) }

// UnmarshalText reads a name.
func (o *Op) UnmarshalText(text []byte) error { return unmarshal(o, text, "reduce op", Ops()) }

// Memory is the kind of memory that the buffers of a call lie in.
type Memory uint8

// The memory kinds.
const (
	Host Memory = iota
	CUDA

	NumMemories = 2
)

var memories = [NumMemories]string{"host", "cuda"}

// Memories lists every memory kind in order.
func Memories() []Memory { return []Memory{Host, CUDA} }

// Valid reports whether m is one of the memory kinds.
func (m Memory) Valid() bool { return m < NumMemories }

func (m Memory) String() string {
	if !m.Valid() {
		return fmt.Sprintf("Memory(%d)", uint8(m))
	}
	return memories[m]
}

// MarshalText writes the name, such as "cuda".
func (m Memory) MarshalText() ([]byte, error) { return marshal(m, m.Valid()) }

// UnmarshalText reads a name.
func (m *Memory) UnmarshalText(text []byte) error {
	return unmarshal(m, text, "memory kind", Memories())
}

func marshal(v fmt.Stringer, valid bool) ([]byte, error) {
	if !valid {
		return nil, fmt.Errorf("invalid value %s", v)
	}
	return []byte(v.String()), nil
}

func unmarshal[T fmt.Stringer](dst *T, text []byte, what string, all []T) error {
	for _, v := range all {
		if v.String() == string(text) {
			*dst = v
			return nil
		}
	}
	return fmt.Errorf("unknown %s %q, want one of %v", what, text, all)
}

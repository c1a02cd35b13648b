package nccl

import "github.com/weir-project/weir/core/collective"

// DataType and Op are NCCL's numbers.
type (
	DataType int32
	Op       int32
)

var dataTypes = [collective.NumDataTypes]DataType{
	collective.Int8: 0, collective.Uint8: 1, collective.Int32: 2, collective.Int64: 4, collective.Float16: 6,
	collective.Float32: 7, collective.Float64: 8, collective.BFloat16: 9,
}

var ops = [collective.NumOps]Op{collective.Sum: 0, collective.Prod: 1, collective.Max: 2, collective.Min: 3, collective.Avg: 4}

// TypeOf is NCCL's number of a valid data type.
func TypeOf(d collective.DataType) DataType { return dataTypes[d] }

// OpOf is NCCL's number of a valid reduce op.
func OpOf(o collective.Op) Op { return ops[o] }

package collective

import "fmt"

// Class is a request class: what a decision is made for, once per group. Byte counts are not part of it; a decision
// covers all of them.
type Class struct {
	Memory   Memory
	DataType DataType
	Op       Op
	Captured bool // the call is recorded in a GPU graph

	// Registered promises that both buffers lie in memory that the group allocated, so that the other ranks can reach it.
	Registered bool
}

// NumClasses is the number of request classes; Index is below it.
const NumClasses = NumMemories * 4 * NumDataTypes * NumOps

// Index numbers the class in [0, NumClasses), for arrays on the hot path.
func (c Class) Index() int {
	i := int(c.Memory) * 4
	if c.Captured {
		i++
	}
	if c.Registered {
		i += 2
	}
	return (i*NumDataTypes+int(c.DataType))*NumOps + int(c.Op)
}

// ClassAt is the inverse of Class.Index.
func ClassAt(index int) Class {
	op, rest := index%NumOps, index/NumOps
	dt, rest := rest%NumDataTypes, rest/NumDataTypes
	return Class{Memory: Memory(rest / 4), DataType: DataType(dt), Op: Op(op), Captured: rest&1 != 0, Registered: rest&2 != 0}
}

// Validate says which field is out of range.
func (c Class) Validate() error {
	switch {
	case !c.Memory.Valid():
		return fmt.Errorf("request class: unknown memory kind %s", c.Memory)
	case !c.DataType.Valid():
		return fmt.Errorf("request class: unknown data type %s", c.DataType)
	case !c.Op.Valid():
		return fmt.Errorf("request class: unknown reduce op %s", c.Op)
	case c.Captured && c.Memory == Host:
		return fmt.Errorf("request class: host memory cannot be captured in a GPU graph")
	}
	return nil
}

// AnyOrder reports whether a number of ranks may be added in any order without any bit of the result being another: integers wrap
// around, min and max choose, and two numbers have one sum, rounded once. avg of floats is divided before by some and after by
// others.
func (c Class) AnyOrder(ranks int) bool {
	switch {
	case ranks < 2 || !c.DataType.Float() || c.Op == Min || c.Op == Max:
		return true
	case c.Op == Avg:
		return false
	}
	return ranks == 2
}

// Mode is "eager" or "captured".
func (c Class) Mode() string {
	if c.Captured {
		return "captured"
	}
	return "eager"
}

func (c Class) String() string {
	s := fmt.Sprintf("%s %s %s %s", c.Memory, c.DataType, c.Op, c.Mode())
	if c.Registered {
		s += " registered"
	}
	return s
}

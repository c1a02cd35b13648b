package rank

import (
	"testing"
	"unsafe"
)

var onHeap *Group

// TestGroupIsAligned: what a call on a device touches is in two cache lines, which begin with the group. Go allocates what
// has 481 to 512 bytes at multiples of 512; make the group's padding fit when its fields change.
func TestGroupIsAligned(t *testing.T) {
	var g Group
	if n := unsafe.Sizeof(g); n <= 480 || n > 512 {
		t.Errorf("a group has %d bytes", n)
	}
	if n := unsafe.Offsetof(g.repeat) + unsafe.Sizeof(g.repeat); n > 128 {
		t.Errorf("what a call touches ends at byte %d of the group", n)
	}
	onHeap = new(Group)
	if at := uintptr(unsafe.Pointer(onHeap)); at%64 != 0 {
		t.Errorf("a group begins at %#x", at)
	}
}

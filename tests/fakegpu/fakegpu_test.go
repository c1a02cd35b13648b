package fakegpu_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/ebitengine/purego"

	"github.com/weir-project/weir/tests/fakegpu"
)

// TestNCCLLeavesNothing: what ranks would have met in is gone with the process that made the unique id, also when no
// communicator came of it.
func TestNCCLLeavesNothing(t *testing.T) {
	if library := os.Getenv("FAKE_NCCL_LIBRARY"); library != "" {
		fmt.Printf("%s\n", failedInit(t, library))
		return
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNCCLLeavesNothing$")
	child.Env = append(os.Environ(), "FAKE_NCCL_LIBRARY="+fakegpu.NCCL(t), "FAKE_NCCL_FAIL=ncclCommInitRank:2")
	child.Stderr = os.Stderr
	out, err := child.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	name, _, _ := bytes.Cut(out, []byte("\n"))
	if _, err := os.Lstat(string(name)); len(name) == 0 || !os.IsNotExist(err) {
		t.Errorf("%q of a process that has ended: %v, want that there is no such file", name, err)
	}
}

// failedInit makes a unique id and no communicator, and returns the name in the id.
func failedInit(t *testing.T, library string) string {
	t.Helper()
	handle, err := purego.Dlopen(library, purego.RTLD_NOW)
	if err != nil {
		t.Fatal(err)
	}
	var uniqueID func(id *[128]byte) int32
	var initRank func(comm *uintptr, world, rank, ids int32, id *[128]byte, config uintptr) int32
	purego.RegisterLibFunc(&uniqueID, handle, "ncclGetUniqueId")
	purego.RegisterLibFunc(&initRank, handle, "ncclCommInitRankScalable")
	var id [128]byte
	var comm uintptr
	if r := uniqueID(&id); r != 0 {
		t.Fatalf("ncclGetUniqueId: %d", r)
	}
	if r := initRank(&comm, 2, 0, 1, &id, 0); r != 2 {
		t.Fatalf("ncclCommInitRank: %d, want the result 2 that was asked for", r)
	}
	name, _, _ := bytes.Cut(id[:], []byte{0})
	if _, err := os.Stat(string(name)); err != nil {
		t.Fatalf("the id names nothing: %v", err)
	}
	return string(name)
}

package worker_test

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/sdk/proto/workerv1"
)

// TestInputsCannotBeWritten: the worker's mapping of the inputs is for reading, whatever it asks for.
func TestInputsCannotBeWritten(t *testing.T) {
	files, _, err := workerv1.Create(workerv1.Shape{World: 1, Slots: 1, SlotBytes: 64})
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	if _, err := unix.Mmap(int(files.ReadOK.Fd()), 0, 64, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); !errors.Is(err, syscall.EACCES) {
		t.Errorf("mapping the inputs for writing: %v, want EACCES", err)
	}
}

// TestInputsOpenedAnew: docs/worker-abi.md says that a process which opens the inputs anew may write to them, so they are no border that
// a worker cannot cross; they still neither grow nor shrink under the ranks.
func TestInputsOpenedAnew(t *testing.T) {
	files, _, err := workerv1.Create(workerv1.Shape{World: 1, Slots: 1, SlotBytes: 64})
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	before, err := files.Inputs.Stat()
	if err != nil {
		t.Fatal(err)
	}
	process := func(script string) error {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
		cmd.ExtraFiles = []*os.File{files.ReadOK} // number 3
		out, err := cmd.CombinedOutput()
		t.Logf("%s: %v %s", script, err, out)
		return err
	}
	if err := process("printf x >&3"); err == nil {
		t.Error("a process wrote by the descriptor that workers get")
	}
	if err := process("printf x 1<>/proc/self/fd/3"); err != nil {
		t.Errorf("a process cannot write by opening the inputs anew, so the page may promise more: %v", err)
	}
	first := make([]byte, 1)
	if _, err := files.Inputs.ReadAt(first, 0); err != nil || first[0] != 'x' {
		t.Errorf("what was written: %q, %v", first, err)
	}
	if err := process(": >/proc/self/fd/3"); err == nil {
		t.Error("a process made the inputs shorter")
	}
	if after, err := files.Inputs.Stat(); err != nil || after.Size() != before.Size() {
		t.Errorf("%v bytes became %v (%v)", before.Size(), after.Size(), err)
	}
}

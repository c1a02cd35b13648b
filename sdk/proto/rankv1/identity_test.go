package rankv1

import (
	"errors"
	"os"
	"os/exec"
	"testing"
)

func TestProcessOf(t *testing.T) {
	if p, err := ProcessOf(os.Getpid()); err != nil || p != Self() || p.Space == 0 {
		t.Fatalf("this process is %+v (%v), and %+v", p, err, Self())
	}
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := ProcessOf(child.Process.Pid)
	if err != nil || p.Space != Self().Space || p.Born < Self().Born {
		t.Errorf("a child is %+v (%v), its parent %+v", p, err, Self())
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	state, err := child.Process.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if p, err := ProcessOf(state.Pid()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a process that has ended is %+v (%v)", p, err)
	}
	b := NewBoard(make([]byte, BoardSize(2)), 2)
	b.Identify(1)
	if b.Identity(1) != Self() || b.Identity(0) != (Process{}) {
		t.Errorf("identities %+v, %+v", b.Identity(0), b.Identity(1))
	}
}

package languages

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/weir-project/weir/tests/harness"
)

// allOK checks that parts of a script were right on both ranks, or else were skipped for want of a newer PyTorch.
func allOK(t *testing.T, out string, parts ...string) {
	t.Helper()
	bothRight(t, out)
	for _, part := range parts {
		for _, rank := range []string{"0", "1"} {
			if !strings.Contains(out, part+" of rank "+rank+": ok\n") && !strings.Contains(out, part+" of rank "+rank+": skipped, needs PyTorch 2") {
				t.Errorf("%s was not ok on rank %s:\n%s", part, rank, out)
			}
		}
	}
}

// TestTorchMemory has collectives of columns, expanded tensors, views of the other sign and the like come out right, and those whose
// result has no place refused.
func TestTorchMemory(t *testing.T) {
	program, env := python(t, "numpy", "torch")
	allOK(t, harness.WeirRun(t, env, "-q", "-n", "2", "--", program, "testdata/python/memory.py"), "memory_of_all_reduce", "memory_of_the_rest")
}

// TestTorchCorners runs what users found wrong in place of gloo, each with its like. Of what only PyTorch 2 has the script says that
// it is skipped.
func TestTorchCorners(t *testing.T) {
	program, env := python(t, "numpy", "torch")
	out := harness.WeirRun(t, env, "-q", "-n", "2", "--", program, "testdata/python/corners.py")
	allOK(t, out, "coalesced", "coalescing_manager", "several_at_once", "nothing", "exchanged", "gradients", "waits", "numbers", "timeouts", "monitored",
		"checkpoints", "gathered_out")
	if n := strings.Count(out, "skipped"); n > 2*4 { // of coalescing_manager, timeouts, checkpoints and gathered_out
		t.Errorf("%d parts are skipped:\n%s", n, out)
	}
}

// TestTorchLate has an all_reduce that the other rank cannot come to, as it waits for something else of this one, say why.
func TestTorchLate(t *testing.T) {
	program, env := python(t, "numpy", "torch")
	bothRight(t, harness.WeirRun(t, append(env, "WEIR_GROUP__DEADLINE=3s"), "-q", "-n", "2", "--", program, "testdata/python/late.py"))
}

// TestTorchRestart has ranks of a second attempt not take what the first left in the store that torchrun keeps for both.
func TestTorchRestart(t *testing.T) {
	program, env := python(t, "numpy", "torch")
	c := exec.Command(program, "testdata/python/restart.py")
	c.Env = append(os.Environ(), append([]string{"XDG_RUNTIME_DIR=" + harness.RunFolder(t), "XDG_STATE_HOME=" + t.TempDir()}, env...)...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	bothRight(t, string(out))
}

// TestTorchLibuv has the store of the rendezvous under weir run heed USE_LIBUV, as that of init_process_group does.
func TestTorchLibuv(t *testing.T) {
	program, env := python(t, "numpy", "torch")
	c := exec.Command(program, "testdata/python/libuv.py")
	c.Env = append(os.Environ(), env...)
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "right\n") {
		t.Errorf("%v\n%s", err, out)
	}
	bothRight(t, harness.WeirRun(t, append(env, "USE_LIBUV=0"), "-q", "-n", "2", "--", program, "testdata/python/libuv.py", "store"))
}

package gpu

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/require"
)

// TestBadKernels holds that a kernel with a fault is found in processes that are thrown away, says why, and leaves nothing on
// the GPU, while the ranks are served by another backend.
func TestBadKernels(t *testing.T) {
	devices(t)
	plugin := program(t, filepath.Join("programs", "badkernel"))
	before := freeMemory(t)
	for _, c := range []struct{ fault, says string }{
		{"none", ""},
		{"wrong_sum", `SELFTEST_FAILED on rank 0 \(in throw-away processes: .*element 0 is`},
		{"illegal_address", `SELFTEST_FAILED .*in throw-away processes: .*CUDA_ERROR_ILLEGAL_ADDRESS`},
		{"deaf", `SELFTEST_FAILED .*in throw-away processes: .*did not end within 1s after the abort word was set`},
		{"endless", `(SELFTEST_FAILED|TIMEOUT) .*in throw-away processes: .*did not finish the self-test within 5s`},
		{"other_header", `.*VERSION: the kernel was built for another version of weir_kernel.h`},
		{"needs a newer driver", `VERSION .*the kernels need 99.0 or newer`},
		{"newer PTX", `VERSION .*the driver is too old for the image`},
		{"not PTX", `PLAN_REJECTED .*the image: `},
		{"no such function", `SYMBOL_MISSING .*the image has no function absent`},
		{"too many blocks", `INIT_FAILED .*65536 blocks of 256 threads`},
	} {
		t.Run(c.fault, func(t *testing.T) {
			out := bench(t, "WEIR_PLUGINS__BADKERNEL__PATH="+plugin, "WEIR_PLUGINS__BADKERNEL__SETTINGS__FAULT="+c.fault, "WEIR_DEADLINES__SELF_TEST=5s")
			if c.says != "" && !regexp.MustCompile(`backend=bad reason="`+c.says).MatchString(out) {
				t.Errorf("the backend is not declined with %q:\n%s", c.says, out)
			}
			if served := servedBy(out); served == "" || (served == "bad") != (c.says == "") {
				t.Errorf("served by %q:\n%s", served, out)
			}
		})
	}
	const slack = 256 << 20 // what others on the machine may do meanwhile
	for end := await.By(await.Plenty); freeMemory(t) < before-slack; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d bytes of GPU memory are free, %d before: something is left", freeMemory(t), before)
		}
	}
}

// freeMemory of the first GPU, without leaving a context that takes some.
func freeMemory(t *testing.T) int64 {
	t.Helper()
	out, err := exec.Command(require.Tool(t, "nvidia-smi"), "-i", "0", "--query-gpu=memory.free", "--format=csv,noheader,nounits").Output()
	var mib int64
	if err == nil {
		_, err = fmt.Fscan(bytes.NewReader(out), &mib)
	}
	if err != nil {
		t.Fatalf("nvidia-smi: %v: %s", err, out)
	}
	return mib << 20
}

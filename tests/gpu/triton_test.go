package gpu

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/weir-project/weir/tests/require"
)

// TestTriton has the kernel of examples/backend-triton all-reduce between two GPUs.
func TestTriton(t *testing.T) {
	if n := devices(t); n < 2 {
		require.Missing(t, "gpus", fmt.Sprintf("%d GPU, and the kernel needs two that reach each other", n))
	}
	out := bench(t, "WEIR_PLUGINS__TRITON__PATH="+program(t, filepath.Join("examples", "backend-triton")), "WEIR_CASCADE__ORDER=triton")
	if served := servedBy(out); served != "triton" {
		t.Errorf("served by %q:\n%s", served, out)
	}
}

package kernel_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-project/weir/tests/require"
)

// layout is what the host relies on; the header is C, too.
const layout = `
#include <stddef.h>
#include "HEADER"
#define HOLDS(what) _Static_assert(what, #what)
HOLDS(sizeof(weir_control) == 128 && sizeof(weir_status) == 128 && sizeof(weir_call) == 200);
HOLDS(offsetof(weir_control, sequence) == 0 && offsetof(weir_control, busy) == 4 && offsetof(weir_control, dead) == 16 && offsetof(weir_control, asked) == 28);
HOLDS(offsetof(weir_status, abort) == 0 && offsetof(weir_status, fault) == 4 && offsetof(weir_status, waiting) == 8);
HOLDS(offsetof(weir_call, count) == 24 && offsetof(weir_call, in) == 32 && offsetof(weir_call, control) == 48);
HOLDS(offsetof(weir_call, buffer_bytes) == 64 && offsetof(weir_call, buffers) == 72);
`

func TestHeaderIsC(t *testing.T) {
	path, err := filepath.Abs("weir_kernel.h")
	if err != nil {
		t.Fatal(err)
	}
	require.Library(t, "layout.so", strings.Replace(layout, "HEADER", path, 1))
}

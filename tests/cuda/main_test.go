// Package cuda tests device memory end to end, with a driver and an NCCL on host memory.
package cuda

import (
	"os"
	"testing"

	"github.com/weir-project/weir/tests/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

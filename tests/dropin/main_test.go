// Package dropin tests that programs which call NCCL get Weir's sums as they are.
package dropin

import (
	"os"
	"testing"

	"github.com/weir-project/weir/tests/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

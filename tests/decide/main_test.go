// Package decide tests how ranks agree on a backend and all-reduce with it, over an agent in the test's process.
package decide

import (
	"os"
	"testing"

	"github.com/weir-project/weir/tests/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// Package switching tests that plugins are reloaded and plans replaced under running all-reduces.
package switching

import (
	"os"
	"testing"

	"github.com/weir-project/weir/tests/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

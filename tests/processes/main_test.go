// Package processes tests what becomes of a job whose ranks, workers, plugins or agents are slow, are stopped or end.
package processes

import (
	"os"
	"testing"

	"github.com/weir-project/weir/tests/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

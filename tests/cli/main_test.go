// Package cli tests the command line end to end, as a user types it.
package cli

import (
	"os"
	"testing"

	"github.com/weir-project/weir/tests/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

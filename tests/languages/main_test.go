// Package languages tests Weir from C and Python, and the backends that `weir plugins new` begins in every language.
package languages

import (
	"os"
	"testing"

	"github.com/weir-project/weir/tests/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

package main

import (
	"os"
	"testing"

	"github.com/weir-project/weir/sdk/kernel/ptx"
)

// TestBuilt holds that the PTX is what ./task kernels makes of sum.cu as it is now.
func TestBuilt(t *testing.T) {
	if err := ptx.Check(image, os.DirFS("."), "sum.cu"); err != nil {
		t.Error(err)
	}
}

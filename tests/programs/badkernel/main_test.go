package main

import (
	"os"
	"testing"

	"github.com/weir-project/weir/sdk/kernel/ptx"
)

// TestBuilt holds that the PTX was compiled from the source as it is now.
func TestBuilt(t *testing.T) {
	if err := ptx.Check(image, os.DirFS("."), "bad.cu"); err != nil {
		t.Error(err)
	}
}

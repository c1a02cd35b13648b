package discover

import (
	"regexp"
	"testing"
	"testing/fstest"

	"github.com/weir-project/weir/tests/require"
)

func TestDriver(t *testing.T) {
	proc := fstest.MapFS{"driver/nvidia/version": {Data: []byte("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Release Build\nGCC version: 12\n")}}
	library := require.Library(t, "libcuda.so.1", cudaSource)
	for _, c := range []struct {
		proc    fstest.MapFS
		library string
		want    string
	}{
		{proc, library, "NVRM version: NVIDIA UNIX x86_64 Kernel Module 580.159.04 Release Build, CUDA 12.8"},
		{nil, library, "CUDA 12.8"},
		{nil, "/nowhere/libcuda.so.1", ""},
	} {
		if got := driver(c.proc, c.library); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestBoot(t *testing.T) {
	if b := Boot(); b != "" && !regexp.MustCompile(`^[0-9a-f-]{36}$`).MatchString(b) {
		t.Errorf("boot id %q", b)
	}
}

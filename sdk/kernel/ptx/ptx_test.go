package ptx_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/weir-project/weir/sdk/kernel"
	"github.com/weir-project/weir/sdk/kernel/ptx"
	"github.com/weir-project/weir/tests/require"
)

const source = `#include "part.h"
WEIR_GLOBAL void f(weir_call call) { *(weir_u32 *)call.out = VALUE; }
`

const part = `#include "weir_kernel.h"
`

func TestBuildAndCheck(t *testing.T) {
	require.Tool(t, ptx.Compiler)
	dir := t.TempDir()
	for name, text := range map[string]string{"f.cu": source, "part.h": part} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := ptx.Build(t.Context(), filepath.Join(dir, "f.cu"), "VALUE=77")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{".version 7.0", ".target sm_80", ".entry f(", "77"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the PTX lacks %q", want)
		}
	}
	for name, c := range map[string]struct {
		files   fstest.MapFS
		define  string
		belongs bool
	}{
		"as it was":                     {files(source, part, string(kernel.Header)), "VALUE=77", true},
		"another macro":                 {files(source, part, string(kernel.Header)), "VALUE=78", false},
		"the source changed":            {files(source+"\n", part, string(kernel.Header)), "VALUE=77", false},
		"what it includes changed":      {files(source, part+"\n", string(kernel.Header)), "VALUE=77", false},
		"another header under its name": {files(source, part, string(kernel.Header)+"\n"), "VALUE=77", false},
	} {
		if err := ptx.Check(text, c.files, "f.cu", c.define); (err == nil) != c.belongs {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := ptx.Check(text, fstest.MapFS{}, "f.cu"); err == nil {
		t.Error("a text passes without its source")
	}
}

func files(source, part, header string) fstest.MapFS {
	return fstest.MapFS{"f.cu": {Data: []byte(source)}, "part.h": {Data: []byte(part)}, kernel.HeaderName: {Data: []byte(header)}}
}

func TestBuildSaysWhatIsWrong(t *testing.T) {
	require.Tool(t, ptx.Compiler)
	file := filepath.Join(t.TempDir(), "f.cu")
	if err := os.WriteFile(file, []byte("no CUDA\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ptx.Build(t.Context(), file); err == nil || !strings.Contains(err.Error(), "f.cu:1:1") {
		t.Errorf("got %v, want the compiler's words", err)
	}
	if _, err := ptx.Build(t.Context(), file+"x"); err == nil {
		t.Error("a file that is not there was built")
	}
}

package conformance

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/weir-project/weir/tests/await"
)

// TestLookAtCountsChildren: what a process that the plugin has started holds is the plugin's.
func TestLookAtCountsChildren(t *testing.T) {
	before, err := lookAt(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "60")
	cmd.ExtraFiles = slices.Repeat([]*os.File{os.Stderr}, 20)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	var after state
	counted := await.Poll(await.For(await.Plenty), func() bool {
		if after, err = lookAt(os.Getpid()); err != nil {
			t.Fatal(err)
		}
		mapped := false
		for name := range after.files {
			mapped = mapped || strings.HasSuffix(name, "sleep") || strings.HasSuffix(name, "coreutils") || strings.HasSuffix(name, "busybox")
		}
		return mapped && after.descriptors >= before.descriptors+20 && slices.Contains(after.children, cmd.Process.Pid) && after.memory > 0
	})
	if !counted {
		t.Errorf("%d descriptors before, %d after; children %v", before.descriptors, after.descriptors, after.children)
	}
}

package cuda

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-project/weir/tests/await"
	"github.com/weir-project/weir/tests/harness"
)

// TestDeviceDesync has one of three processes get out of step with the others in one way after another, with a library and with
// kernels: every rank says the same, and its stream comes to an end. Of a replay too many or too few only kernels tell.
func TestDeviceDesync(t *testing.T) {
	// A disagreement is told as soon as two ranks have come to the call: the third may not have.
	disagree := func(odd string) string {
		const sum, behind = "all-reduce 22 of 4000 bytes, cuda float32 sum eager", "no further than all-reduce 21 of 4000 bytes, cuda float32 sum captured"
		return fmt.Sprintf("ranks disagree about all-reduce 22: (ranks 0, 2: %[1]s; rank 1: %[3]s|rank 0: %[1]s; rank 1: %[3]s; rank 2: %[2]s|rank 0: %[2]s; rank 1: %[3]s; rank 2: %[1]s)$",
			sum, behind, "all-reduce 22 "+odd)
	}
	deadline := await.For(time.Second).Round(time.Millisecond)
	late := fmt.Sprintf("did not begin all-reduce 24 within %s: last, rank ", deadline)
	device := fmt.Sprintf("on the device for %s: it did not come to this call, or to a replay of a graph with it", deadline)
	faults := []struct{ how, words, replays string }{
		{"size", disagree("of 2000 bytes, cuda float32 sum eager"), ""},
		{"type", disagree("of 4000 bytes, cuda int32 sum eager"), ""},
		{"op", disagree("of 4000 bytes, cuda float32 max eager"), ""},
		{"undecided", disagree("of 4000 bytes, cuda float32 min eager"), ""},
		{"refused", disagree("with arguments that it refused"), ""},
		{"skips", disagree("of 2000 bytes, cuda float32 sum eager"), ""},
		{"swaps", disagree("of 2000 bytes, cuda float32 sum eager"), ""},
		{"captures", disagree("of 4000 bytes, cuda float32 sum captured"), ""},
		{"misses", "rank 1 " + late, ""},
		{"doubles", "ranks 0, 2 " + late, ""},
		{"ahead", "", device},
		{"ahead alike", "", device},
		{"behind", "", device},
	}
	libraries, kernels := harness.FakeLibraries(t), filepath.Join(harness.FakeKernels(t), "right")
	cache := t.TempDir()
	for plan, more := range map[string][]string{"library": nil, "kernels": {
		"WEIR_PLUGINS__KERNELPLUGIN__PATH=" + filepath.Join(harness.Bin, "programs", "kernelplugin"), "WEIR_PLUGINS__KERNELPLUGIN__SETTINGS__IMAGE=" + kernels,
	}} {
		env := append([]string{"LD_LIBRARY_PATH=" + libraries, "FAKE_CUDA_DEVICES=3", "XDG_CACHE_HOME=" + cache, "WEIR_GROUP__DEADLINE=" + deadline.String()}, more...)
		run := func(t *testing.T, how string) string {
			return harness.WeirRun(t, env, "-n", "3", "--", filepath.Join(harness.Bin, "programs", "devicedesync"), how)
		}
		t.Run(plan, func(t *testing.T) {
			run(t, "none")
			for _, f := range faults {
				want := f.words
				if want == "" && plan == "kernels" {
					want = f.replays
				}
				if want == "" {
					continue
				}
				t.Run(f.how, func(t *testing.T) {
					out, pattern := run(t, f.how), regexp.MustCompile(want)
					for r := range 3 {
						said := fmt.Sprintf("rank %d: group g1 has failed: ", r)
						_, why, found := strings.Cut(out, said)
						why, _, _ = strings.Cut(why, "\n")
						if !found || !pattern.MatchString(why) || !strings.Contains(out, fmt.Sprintf("rank %d: the device is usable", r)) {
							t.Errorf("rank %d does not say %q, or that its device is usable:\n%s", r, want, out)
						}
					}
				})
			}
		})
	}
}

// TestDeviceLibraryIsAFIFO: nobody waits for a library that is none, neither the plugin that is told to use it nor ranks whose plan
// names it.
func TestDeviceLibraryIsAFIFO(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "libnccl.so.2")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{
		"LD_LIBRARY_PATH=" + harness.FakeLibraries(t), "FAKE_CUDA_DEVICES=2", "XDG_CACHE_HOME=" + t.TempDir(), "WEIR_PLUGINS__NCCL__SETTINGS__LIBRARY=" + fifo,
		"WEIR_PLUGINS__LIBRARY__PATH=" + filepath.Join(harness.Bin, "examples", "backend-library"), "WEIR_PLUGINS__LIBRARY__SETTINGS__LIBRARY=" + filepath.Join(harness.FakeLibraries(t), "libnccl.so.2"),
	}
	out := harness.WeirRun(t, env, "-n", "2", "--", filepath.Join(harness.Bin, "verify-pass"), "-memory", "cuda", "-tokens", "1", "-passes", "1")
	if !strings.Contains(out, " 14 KiB ") {
		t.Errorf("the other backend does not serve:\n%s", out)
	}

	j := harness.StartAgent(t, 2, nil, library(fifo, "2.28.9"))
	for r, text := range j.DeviceProcesses(t, 2, "devicedesync", "none") {
		if !strings.Contains(text, "LIB_MISSING on rank 0") || !strings.Contains(text, "not a regular file") {
			t.Errorf("rank %d: %s", r, text)
		}
	}
}

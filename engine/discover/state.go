package discover

import (
	"io/fs"
	"os"
	"strings"

	"github.com/weir-project/weir/sdk/native/cuda"
)

// Boot is the kernel's id of this start of the machine; "" if it does not tell.
func Boot() string { return line(os.DirFS("/proc"), "sys/kernel/random/boot_id") }

// Driver names NVIDIA's driver: its kernel module, and the CUDA version of its library; "" if there is none. It starts
// neither.
func Driver() string { return driver(os.DirFS("/proc"), cuda.LibraryName) }

func driver(procfs fs.FS, library string) string {
	var parts []string
	if text, _, _ := strings.Cut(line(procfs, "driver/nvidia/version"), "\n"); text != "" {
		parts = append(parts, strings.Join(strings.Fields(text), " "))
	}
	if d, err := cuda.Open(library); err == nil { // it stays loaded: the next to ask is CUDA
		if v, err := d.Version(); err == nil {
			parts = append(parts, "CUDA "+v)
		}
	}
	return strings.Join(parts, ", ")
}

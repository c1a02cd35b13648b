package dl

import (
	"debug/elf"
	"fmt"
	"runtime"
)

var machines = map[string]elf.Machine{
	"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64, "ppc64le": elf.EM_PPC64, "riscv64": elf.EM_RISCV, "s390x": elf.EM_S390,
}

// checkMachine tells a library for another processor, of which the loader says that there is no such file. What is no
// library at all is left to the loader.
func checkMachine(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	if want, known := machines[runtime.GOARCH]; known && f.Machine != want {
		return fmt.Errorf("%s: a library for %s, this is %s", path, f.Machine, want)
	}
	return nil
}

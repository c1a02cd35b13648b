package cli

import (
	"os"
	"os/exec"
	"runtime"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// pretendNodes has the kernel's files say that the cores are on two NUMA nodes in turn, and runs the rest of the command line.
const pretendNodes = `set -e
mount -t tmpfs none /sys/devices/system/node
i=0
for cpu in /sys/devices/system/cpu/cpu[0-9]*; do
	mkdir -p "/sys/devices/system/node/node$((i % 2))/${cpu##*/}"
	i=$((i + 1))
done
exec "$@"`

// onTwoNodes is a command line that runs a program on a machine with two NUMA nodes, as far as its programs can tell: in a
// mount namespace of their own.
func onTwoNodes(args ...string) []string {
	flags := []string{"-m"}
	if os.Getuid() != 0 {
		flags = []string{"-r", "-m"} // as root of a user namespace
	}
	return append(append(flags, "sh", "-c", pretendNodes, "sh"), args...)
}

// mayPretendNodes reports whether this machine lets a test do that.
var mayPretendNodes = sync.OnceValue(func() bool {
	return runtime.NumCPU() >= 2 && exec.Command("unshare", onTwoNodes("true")...).Run() == nil
})

// twoNodes PROGRAM ARGUMENT… runs a program as on a machine with two NUMA nodes. Its output is there for stdout and stderr.
func twoNodes(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: twonodes PROGRAM ARGUMENT…")
	}
	ts.Check(ts.Exec("unshare", onTwoNodes(args...)...))
}

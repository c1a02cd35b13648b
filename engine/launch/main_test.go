package launch

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-project/weir/tests/await"
)

// What the test's own program does when it is started as something else.
const (
	asReaper   = "as-reaper"   // FOLDER: reaps
	asDeserter = "as-deserter" // leaves a process in a session of its own, which holds standard output open
	asSleeper  = "as-sleeper"
)

func TestMain(m *testing.M) {
	if len(os.Args) < 2 {
		os.Exit(m.Run())
	}
	switch os.Args[1] {
	case asReaper:
		Reap(os.Stdin, nil, os.Args[2])
	case asDeserter:
		child := exec.Command(os.Args[0], asSleeper)
		child.Stdout = os.Stdout
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := child.Start(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(child.Process.Pid)
	case asSleeper:
		time.Sleep(time.Minute)
	default:
		os.Exit(m.Run())
	}
}

// alive reports whether a process runs; one that has ended and that nobody has waited for does not.
func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return after != "" && after[0] != 'Z' && after[0] != 'X'
}

// wantGone waits until a process that was killed has ended.
func wantGone(t *testing.T, pid int) {
	t.Helper()
	if !await.Poll(await.For(await.Plenty), func() bool { return !alive(pid) }) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		t.Fatalf("process %d still runs", pid)
	}
}

package pluginhost_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/weir-project/weir/engine/pluginhost"
	"github.com/weir-project/weir/tests/await"
)

// engine is the main of a process that is killed: it starts a plugin, says which and waits.
func engine() {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	h, err := pluginhost.Start(context.Background(), []pluginhost.Spec{{
		Name: "flat", Path: exe, Env: map[string]string{modeEnv: os.Getenv("WEIR_TEST_PLUGIN_MODE"), "WEIR_TEST_BACKEND": "flat"},
	}}, pluginhost.Options{Dir: os.Getenv("WEIR_TEST_DIR")})
	if err != nil {
		panic(err)
	}
	fmt.Println(h.Plugins()[0].PID)
	if c := h.Candidates()[0]; c.Backend != nil {
		_, _ = c.Backend.Accept(context.Background(), hostRequest())
	}
	forever()
}

// Whatever the plugin is doing, the engine's death is its own, and its socket goes with it.
func TestEngineIsKilled(t *testing.T) {
	for _, mode := range []string{"good", "good:accept-hang"} {
		t.Run(mode, func(t *testing.T) {
			opts, _ := options(t)
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), modeEnv+"=engine", "WEIR_TEST_DIR="+opts.Dir, "WEIR_TEST_PLUGIN_MODE="+mode)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cmd.Wait() }()
			defer func() { _ = cmd.Process.Kill() }()
			line, err := bufio.NewReader(out).ReadString('\n')
			var pid int
			if _, e := fmt.Sscan(line, &pid); e != nil || !alive(pid) {
				t.Fatal(err, e, line)
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			await.Until(t, "the plugin is gone", func() bool { return !alive(pid) })
			left, err := os.ReadDir(opts.Dir)
			if err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// Package harness is what the end-to-end tests share: the programs that they start, agents with backends that a test chooses, and ranks.
package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/tests/await"
)

// Built names the environment variable that holds a folder which tests/build has filled just now, so that no package does it again.
const Built = "WEIR_TEST_BUILT"

// Bin is the folder of the programs under test, laid out as `./task build` lays them out. All packages share it.
var Bin string

// scratch is a folder of this process, which is removed when its tests have ended.
var scratch string

// Main is what TestMain of a package of end-to-end tests does; it returns the exit code.
func Main(m *testing.M) int {
	// Some tests run ranks as goroutines, which spin: each needs a thread of its own.
	runtime.GOMAXPROCS(16)
	var err error
	if Bin, err = programs(); err == nil {
		scratch, err = os.MkdirTemp("", "weir-tests")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(scratch)
	return m.Run()
}

// programs builds what tests start and returns its folder, bin/tests of the clone. Packages whose tests run at the same time do it in turn,
// and all but the first find it up to date.
func programs() (string, error) {
	if dir := os.Getenv(Built); dir != "" {
		return filepath.Abs(dir)
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, "bin", "tests")
	return dir, locked(dir, func() error {
		if out, err := exec.Command(filepath.Join(root, "tests", "build"), dir).CombinedOutput(); err != nil {
			return fmt.Errorf("tests/build %s: %w\n%s", dir, err, out)
		}
		return nil
	})
}

// Root is the folder of the clone: the first one upwards that has a go.mod.
func Root() (string, error) {
	at, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := at; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod in %s or above", at)
		}
	}
}

// locked runs f while no other process does anything in the folder that it makes.
func locked(dir string, f func() error) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()                      // which gives the lock back
	patience := await.For(10 * time.Minute) // on a slow machine, for a first build
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return f()
		case !errors.Is(err, unix.EWOULDBLOCK):
			return fmt.Errorf("lock %s: %w", file.Name(), err)
		case time.Now().After(end):
			return fmt.Errorf("lock %s: another process has built there for %s", file.Name(), patience)
		}
	}
}

package cli

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestEngineThatNeverAnswers holds that an engine which does not answer is told from one that does not run.
func TestEngineThatNeverAnswers(t *testing.T) {
	folder, err := os.MkdirTemp("/tmp", "wt") // a short path, for sockets
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	question := func() error {
		return ask(t.Context(), 50*time.Millisecond, folder, http.MethodGet, "/status", nil, &runStatus{})
	}
	var silent *silence
	if err := question(); err == nil || errors.As(err, &silent) {
		t.Errorf("nobody listens: %v", err)
	}
	l, err := net.Listen("unix", filepath.Join(folder, controlSocket))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	want := fmt.Sprintf("the engine that runs as process %d has not answered within 50ms; its log (log.level: debug) may say what it does", os.Getpid())
	if err := question(); !errors.As(err, &silent) || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestProcessState(t *testing.T) {
	for stat, want := range map[string]byte{"1 (a) b) T 0 1": 'T', "1 (t) S 0": 'S', "": 0, "1 (a) ": 0} {
		if got := processState(stat); got != want {
			t.Errorf("%q: %c", stat, got)
		}
	}
}

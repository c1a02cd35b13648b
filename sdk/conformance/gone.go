package conformance

import (
	"errors"
	"time"

	"github.com/weir-project/weir/sdk/internal/exec"
)

// lastWords is how long is waited for what a worker logs once its connection has ended.
const lastWords = 500 * time.Millisecond

// whyGone is what the process has complained of since the suite began, if the failure is that the worker is gone: its ranks see
// no more than that. In a test's own process the log is in view.
func (s *suite) whyGone(err error) string {
	if s.plugin.Process == nil || !errors.As(err, new(*exec.WorkerLost)) {
		return ""
	}
	for end := time.Now().Add(lastWords); ; time.Sleep(10 * time.Millisecond) {
		if said := s.plugin.Process.Complaints(); len(said) > s.heard {
			return "; the plugin's log says: " + said[s.heard] // the first is the cause of others
		}
		if time.Now().After(end) {
			return "; the plugin's log has no error (--verbose shows all of it)"
		}
	}
}

package plugin

import (
	"io"
	"os"
	"os/signal"

	goplugin "github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/sdk/proto/pluginv1"
)

// lifeline is closed when the engine is gone, however it ended. A host that gives no pipe gives no such word.
func lifeline() <-chan struct{} {
	gone := make(chan struct{})
	var st unix.Stat_t
	if err := unix.Fstat(pluginv1.LifelineFD, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
		return gone
	}
	unix.CloseOnExec(pluginv1.LifelineFD)
	pipe := os.NewFile(pluginv1.LifelineFD, "lifeline")
	go func() {
		defer close(gone)
		defer pipe.Close()
		_, _ = io.Copy(io.Discard, pipe) // an error is the end as well
	}()
	return gone
}

// removeSocketDir removes the folder that the engine made for this plugin's socket and cannot remove any more. It stays
// if anything is left in it.
func removeSocketDir() {
	if dir := os.Getenv(goplugin.EnvUnixSocketDir); dir != "" {
		_ = os.Remove(dir)
	}
}

// ignoreSignals keeps the process alive until the engine decides, also when stderr breaks because the engine is gone.
// Programs that the plugin starts are not affected, as they would be by signal.Ignore.
func ignoreSignals() (restore func()) {
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, unix.SIGINT, unix.SIGTERM, unix.SIGPIPE)
	return func() { signal.Stop(ignored) }
}

package plugin

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// attachable reports whether a person started this process for an engine to attach to: an engine that starts a plugin says
// which versions of the protocol it speaks.
func attachable() bool { return os.Getenv("PLUGIN_PROTOCOL_VERSIONS") == "" }

// over is closed when nobody needs the plugin any more: the engine that started it is gone, or the person says so. The
// lifeline's descriptor is anything in a process that no engine started.
func over() <-chan struct{} {
	if !attachable() {
		return lifeline()
	}
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM)
	go func() {
		defer close(done)
		<-signals
	}()
	return done
}

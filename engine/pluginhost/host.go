// Package pluginhost starts plugins, checks what they are, keeps them in hand and stops them.
package pluginhost

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/samber/lo"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/dispatch"
	"github.com/weir-project/weir/engine/builtin"
)

// Spec is a plugin to start.
type Spec struct {
	Name     string            // as the configuration calls it; "" for the name of the file
	Path     string            // of the executable
	SHA256   string            // that the file must have, in hexadecimal; "" for any
	Insecure bool              // no TLS on the socket, for plugins whose language makes it hard
	Env      map[string]string // beside the variables that every plugin gets
	Settings map[string]any

	// Attach is where a process listens that somebody else has started and that is used in place of one of Path; the zero
	// Address is none. It has no deadlines to speak of (AttachedPatience), is not started again and is never killed.
	Attach Address
}

// Options are the same for all plugins of a host.
type Options struct {
	Dir          string        // an existing folder of mode 0700 for sockets; its path is short
	StartTimeout time.Duration // until a plugin has described itself; 0 for 10 s
	CallTimeout  time.Duration // of every later call; 0 for 5 s
	Logger       *slog.Logger  // nil for slog's default

	// OnStart is called with the process group of a plugin right after its process has started; it may be nil.
	OnStart func(pgid int)
	// OnEnd is called once that number may be used again; it may be nil.
	OnEnd func(pgid int)

	TracerProvider trace.TracerProvider          // nil for no spans of calls and no trace context
	Propagator     propagation.TextMapPropagator // how the trace context crosses to plugins; nil for none

	Restart Restart
}

// Host holds running plugins. Its methods may be called concurrently.
type Host struct {
	slots []*slot
	close sync.Once

	life        context.Context // of supervision
	supervision context.CancelFunc
	supervisors sync.WaitGroup

	serving atomic.Pointer[func(plugin string)]
}

// Status is what is known of one plugin.
type Status struct {
	Name          string // in the configuration
	Offered       string // the name that it calls itself by
	Version       string // as it advertises
	Path          string // resolved: no symbolic links
	SHA256        string // of the file
	PID           int    // also its process group
	Started       time.Time
	StartDuration time.Duration // until it had described itself, or failed to
	Restarts      int           // since it was last well
	Err           error         // why it does not serve, or nil
	Backends      []backend.Info
}

// Start starts all plugins at once and waits until each has described itself. A plugin that hangs or crashes is no
// error: its candidates carry the fault. The error is one line for the person who can mend it, and nothing is left
// running then. A plugin that ends by itself later is started again, as Restart says.
func Start(ctx context.Context, specs []Spec, opts Options) (*Host, error) {
	opts.StartTimeout = cmp.Or(opts.StartTimeout, 10*time.Second)
	opts.CallTimeout = cmp.Or(opts.CallTimeout, 5*time.Second)
	opts.Logger = cmp.Or(opts.Logger, slog.Default())
	if err := checkDir(opts.Dir); err != nil {
		return nil, err
	}
	binaries, err := checkAll(specs)
	if err != nil {
		return nil, err
	}
	opts.Restart = opts.Restart.complete()
	h := &Host{supervision: func() {}}
	h.slots = lo.Map(binaries, func(b binary, _ int) *slot { return newSlot(h, b, opts) })
	if err := h.startAll(ctx, binaries, opts); err != nil {
		h.Close()
		return nil, err
	}
	if err := h.checkNames((*slot).nowRunning); err != nil {
		h.Close()
		return nil, err
	}
	h.life, h.supervision = context.WithCancel(context.WithoutCancel(ctx))
	for _, s := range h.slots {
		h.watch(s)
	}
	return h, nil
}

// watch begins the supervision of a plugin that serves, or that may if it is tried again.
func (h *Host) watch(s *slot) {
	if s.late = s.now.late(); s.late || s.now.fault == nil && s.now.attached == nil {
		s.supervised = true
		h.supervisors.Go(func() { s.supervise(h.life) })
	}
}

// startAll returns the error of the plugin that failed first; the others are given up then.
func (h *Host) startAll(parent context.Context, binaries []binary, opts Options) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	var wg sync.WaitGroup
	for i, b := range binaries {
		wg.Go(func() {
			r, err := h.slots[i].starter.launch(ctx, b, opts)
			h.slots[i].now = r
			if err != nil {
				cancel(fmt.Errorf("plugin %s: %w", b.spec.Name, err))
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil && parent.Err() != nil {
		return fmt.Errorf("start plugins: %w", err)
	}
	return context.Cause(ctx)
}

// checkNames refuses what two plugins both offer, in the process that of says for each.
func (h *Host) checkNames(of func(*slot) *running) error {
	plugins, backends := map[string]string{}, map[string]string{}
	for _, s := range h.slots {
		r := of(s)
		if r.fault != nil {
			continue
		}
		if other, twice := plugins[r.offer.Name]; twice {
			return fmt.Errorf("plugin %s: %s and %s are the same plugin %q: keep one", r.name, r.path, other, r.offer.Name)
		}
		plugins[r.offer.Name] = r.path
		for _, info := range r.offer.Backends {
			if info.Name == builtin.Name {
				return fmt.Errorf("plugin %s: backend %q has the name of the engine's own: give it another", r.name, info.Name)
			}
			if other, twice := backends[info.Name]; twice {
				return fmt.Errorf("plugin %s: backend %q is also offered by plugin %s: keep one of the plugins", r.name, info.Name, other)
			}
			backends[info.Name] = r.name
		}
	}
	return nil
}

// Candidates are the backends of all plugins as they are now, in the order of the specs. A plugin that did not come up is
// one candidate of the plugin's name, with its fault.
func (h *Host) Candidates() []dispatch.Candidate {
	return lo.FlatMap(h.slots, func(s *slot, _ int) []dispatch.Candidate { return s.candidates() })
}

// Plugins is the status of each plugin, in the order of the specs.
func (h *Host) Plugins() []Status {
	return lo.Map(h.slots, func(s *slot, _ int) Status { return s.status() })
}

// Await waits until a plugin that has ended serves again. It returns false at once if it will not, for it was given up or
// never came up, and when ctx ends.
func (h *Host) Await(ctx context.Context, plugin string) bool {
	s, found := lo.Find(h.slots, func(s *slot) bool { r, _, _ := s.current(); return r.name == plugin })
	return found && s.await(ctx)
}

// WhenServing has f called, with its name, whenever a plugin serves again that had ended, or at last that was slow to come up. It must
// return soon.
func (h *Host) WhenServing(f func(plugin string)) { h.serving.Store(&f) }

// Kill ends a plugin's process, by the number that its candidates carry, at once; it is started again as one that ended
// by itself. why is for the log.
func (h *Host) Kill(process uint64, why error) {
	for _, s := range h.slots {
		for _, r := range s.all() {
			if r.number != process {
				continue
			}
			if r.attached != nil {
				r.attached.notKilled(r.log, why)
				continue
			}
			r.log.Warn("plugin is killed", "why", why)
			r.process.kill()
		}
	}
}

// closeTime is how long all plugins together may take to stop before they are killed.
const closeTime = 5 * time.Second

// Close stops the plugins, the last one first, and returns when their processes and process groups are gone. What has left the group, by
// setsid, is the caller's to end: it has PLUGIN_UNIX_SOCKET_DIR, below Options.Dir, in its environment.
func (h *Host) Close() {
	h.close.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		h.supervision()
		for _, s := range slices.Backward(h.slots) {
			s.stop(ctx)
		}
		h.supervisors.Wait()
	})
}

// checkDir makes sure that plugins can make sockets that nobody else reaches.
func checkDir(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return fmt.Errorf("folder for plugin sockets: %w", err)
	case !info.IsDir():
		return fmt.Errorf("folder for plugin sockets: %s is not a folder", dir)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("folder for plugin sockets: %s has mode %#o, want 0700", dir, info.Mode().Perm())
	}
	// The system allows 107 bytes; go-plugin adds "/plugin-dir" and "/plugin" with up to ten digits each.
	const longest = 107 - len("/plugin-dir") - len("/plugin") - 2*10
	if len(dir) > longest {
		return fmt.Errorf("folder for plugin sockets: the path %s has %d bytes, a socket's allows %d: use a shorter TMPDIR or XDG_RUNTIME_DIR", dir, len(dir), longest)
	}
	return nil
}

var errStopped = errors.New("the plugin was stopped")

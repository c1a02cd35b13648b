package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/engine/limits"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
)

// running is a plugin that was started, or could not be.
type running struct {
	number             uint64 // no other process of the engine has it
	name, path, sha256 string
	opts               Options
	log                *slog.Logger
	process            *process
	client             client
	attached           *attached // in place of the process and the client
	started            time.Time
	took               time.Duration

	life    context.Context
	service pluginv1.PluginServiceClient
	offer   pluginv1.Description
	fault   error // why it never came up, or nil
}

// client is what is used of go-plugin's.
type client interface {
	Client() (goplugin.ClientProtocol, error)
	Kill() // asks the plugin to end, then makes it
}

var lastNumber atomic.Uint64 // of a process

// launch is what a starter of files does.
func launch(ctx context.Context, b binary, opts Options) (*running, error) {
	if b.spec.Attach != (Address{}) {
		return attach(ctx, b, opts)
	}
	defer b.close()
	r := newRunning(b, opts)
	r.client = goplugin.NewClient(r.clientConfig(b.spec.Insecure))
	limited, cancel := context.WithTimeout(ctx, opts.StartTimeout)
	defer cancel()
	giveUp := context.AfterFunc(limited, r.process.kill)
	err := r.connect(limited, b.spec)
	r.took = time.Since(r.started)
	if err == nil && giveUp() {
		r.log.Debug("plugin is up", "pid", r.process.ID(), "took", r.took)
		context.AfterFunc(r.life, r.logEnd)
		return r, nil
	}
	r.process.kill()
	if ctx.Err() != nil {
		r.fault = context.Cause(ctx)
		return r, r.fault
	}
	if limited.Err() != nil || err != nil && backend.ReasonFor(err).Code == backend.Timeout { // gRPC may end a call just before the deadline
		err = r.failed(backend.Timeout, fmt.Errorf("it did not come up within %s%s", opts.StartTimeout, r.lastWords()))
	}
	var fault *backend.Fault
	if errors.As(err, &fault) {
		r.fault = &backend.Fault{Code: fault.Code, Rank: fault.Rank, Err: fmt.Errorf("plugin %s: %w", r.name, fault.Err)}
		r.log.Warn("plugin did not come up", "code", fault.Code, "err", fault.Err)
		return r, nil
	}
	r.fault = err
	return r, err
}

func newRunning(b binary, opts Options) *running {
	r := &running{
		number: lastNumber.Add(1),
		name:   b.spec.Name, path: b.path, sha256: b.sha256, opts: opts,
		log: opts.Logger.With("plugin", b.spec.Name), started: time.Now(),
	}
	r.process = newProcess(b, opts, r.log)
	r.life = r.process.life
	return r
}

func (r *running) clientConfig(insecure bool) *goplugin.ClientConfig {
	return &goplugin.ClientConfig{
		HandshakeConfig: goplugin.HandshakeConfig{
			MagicCookieKey: pluginv1.MagicCookieKey, MagicCookieValue: pluginv1.MagicCookieValue,
		},
		VersionedPlugins: map[int]goplugin.PluginSet{pluginv1.ProtocolVersion: {pluginv1.PluginType: grpcPlugin{}}},
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		// Ours is the deadline; go-plugin's is there in case that ours fails.
		StartTimeout:     r.opts.StartTimeout + time.Second,
		AutoMTLS:         !insecure,
		SkipHostEnv:      true,
		Logger:           newSlogger(r.log),
		SyncStdout:       r.process.stdout,
		SyncStderr:       r.process.stderr,
		GRPCDialOptions:  dialOptions(r.opts),
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: r.opts.Dir},
		RunnerFunc: func(_ hclog.Logger, cmd *exec.Cmd, dir string) (runner.Runner, error) {
			r.process.dir = dir
			r.process.env = append(r.process.env, cmd.Env...) // the last one wins
			return r.process, nil
		},
	}
}

// connect goes from nothing to a plugin that has described itself. Its error is a *backend.Fault if the plugin failed.
func (r *running) connect(ctx context.Context, spec Spec) error {
	protocol, err := r.client.Client()
	if err != nil {
		return r.explain(err, spec)
	}
	if err := checkHandshake(r.process.firstLine(), !spec.Insecure); err != nil {
		return err
	}
	raw, err := protocol.Dispense(pluginv1.PluginType)
	if err != nil {
		return err
	}
	r.service = raw.(pluginv1.PluginServiceClient)
	r.offer, err = pluginv1.Describe(ctx, r.life, r.service, spec.Settings)
	return err
}

// explain finds out why there is no connection, from what the process did rather than from go-plugin's words.
func (r *running) explain(err error, spec Spec) error {
	if limits.Exhausted(r.process.startErr) { // another try may find what it needs
		return r.failed(backend.InitFailed, fmt.Errorf("cannot start %s: %w", r.path, limits.Explain(r.process.startErr)))
	}
	if r.process.startErr != nil {
		return cannotRun(r.path, r.process.startErr)
	}
	if line := r.process.firstLine(); line != "" {
		if wrong := checkHandshake(line, !spec.Insecure); wrong != nil {
			return wrong
		}
		return fmt.Errorf("wrong handshake: %s", strings.ReplaceAll(err.Error(), "\n", " "))
	}
	switch itself, failed := r.process.ended(); {
	case itself && failed:
		<-r.process.done
		return r.failed(backend.PluginCrashed, context.Cause(r.life))
	case itself:
		return fmt.Errorf("not a Weir plugin: %s ended without a handshake%s", r.path, r.lastWords())
	}
	return r.failed(backend.Other, err)
}

func (r *running) failed(code backend.Code, err error) error {
	return &backend.Fault{Code: code, Rank: backend.AnyRank, Err: err}
}

// logEnd tells of an end that nobody asked for.
func (r *running) logEnd() {
	if err := context.Cause(r.life); !errors.Is(err, errStopped) {
		r.log.Warn("plugin is gone", "err", err)
	}
}

func (r *running) lastWords() string {
	if words := r.process.stderr.Last(); words != "" {
		return "; it last said: " + words
	}
	return ""
}

func (r *running) status() Status {
	s := Status{
		Name: r.name, Offered: r.offer.Name, Version: r.offer.Version, Path: r.path, SHA256: r.sha256, Backends: r.offer.Backends,
		Started: r.started, StartDuration: r.took, Err: r.fault,
	}
	if s.Err == nil {
		s.Err = context.Cause(r.life)
	}
	if r.attached != nil {
		s.PID = r.attached.pid
		return s
	}
	r.process.mu.Lock()
	defer r.process.mu.Unlock()
	s.PID = r.process.pid
	return s
}

// graceTime is how long one plugin may take to end when asked to; it ends at once if nothing hangs.
const graceTime = 3 * time.Second

// stop asks the plugin to end, then makes it. It returns when the process and its group are gone; a process that even
// SIGKILL does not end is left behind after graceTime.
func (r *running) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, graceTime)
	defer cancel()
	r.process.end(errStopped)
	if r.attached != nil {
		r.attached.leave()
		return
	}
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		r.client.Kill()
	}()
	select {
	case <-asked:
	case <-ctx.Done():
	}
	r.process.cutLifeline()
	r.process.kill()
	if r.process.ID() != "" && !waitFor(r.process.done, asked) {
		r.log.Warn("plugin could not be stopped", "pid", r.process.ID())
	}
	if r.process.dir != "" {
		_ = os.RemoveAll(r.process.dir)
	}
}

// waitFor waits at most graceTime for both.
func waitFor(a, b <-chan struct{}) bool {
	ctx, cancel := context.WithTimeout(context.Background(), graceTime)
	defer cancel()
	for _, c := range []<-chan struct{}{a, b} {
		select {
		case <-c:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

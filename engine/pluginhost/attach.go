package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
	"github.com/weir-project/weir/sdk/proto/trust"
)

// AttachedPatience is the deadline of every call to a plugin that somebody else has started: it may stand at a breakpoint.
const AttachedPatience = 24 * time.Hour

// dialTime bounds how long a socket may take to accept a connection, which needs nobody to answer.
const dialTime = 5 * time.Second

// attached is the connection to a plugin that somebody else has started, and will end. Nothing here ends its process.
type attached struct {
	conn *grpc.ClientConn
	pid  int // 0 if it is not known
}

// attach connects to a plugin that is there already and asks what it offers. An error is for the user.
func attach(ctx context.Context, b binary, opts Options) (*running, error) {
	opts.StartTimeout, opts.CallTimeout = AttachedPatience, AttachedPatience
	r := newRunning(b, opts)
	r.attached = &attached{}
	if err := r.attached.dial(ctx, b.spec.Attach, opts); err != nil {
		r.fault = fmt.Errorf("attach to %s: %w", b.spec.Attach, err)
		return r, r.fault
	}
	go r.attached.watch(r.process)
	r.service = pluginv1.NewPluginServiceClient(r.attached.conn)
	r.log.Info("attached; waiting for what it offers", "address", b.spec.Attach, "pid", r.attached.pid)
	limited, cancel := context.WithTimeout(ctx, opts.StartTimeout)
	defer cancel()
	var err error
	r.offer, err = pluginv1.Describe(limited, r.life, r.service, b.spec.Settings)
	r.took = time.Since(r.started)
	switch fault := (*backend.Fault)(nil); {
	case ctx.Err() != nil:
		r.fault = context.Cause(ctx)
	case errors.As(err, &fault):
		r.fault = fmt.Errorf("attach to %s: %w", b.spec.Attach, fault.Err)
	default:
		r.fault = err
	}
	if r.fault == nil {
		context.AfterFunc(r.life, r.logEnd)
	}
	return r, r.fault
}

// dial connects once: a connection that is lost is not made again, for the process behind it may be another.
func (a *attached) dial(ctx context.Context, address Address, opts Options) error {
	socket, err := a.connect(ctx, address)
	if err != nil {
		return fmt.Errorf("%w: start the plugin with %s=%s and give the address that it prints", err, pluginv1.MagicCookieKey, pluginv1.MagicCookieValue)
	}
	var once sync.Once
	options := append(dialOptions(opts), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (conn net.Conn, err error) {
			err = errors.New("the connection is lost")
			once.Do(func() { conn, err = socket, nil })
			return conn, err
		}))
	if a.conn, err = grpc.NewClient("passthrough:///"+address.Path, options...); err != nil {
		return errors.Join(err, socket.Close())
	}
	return nil
}

// connect reaches the address. A process of another user at a Unix socket is refused, as the settings may be secret and its plans
// run in ranks.
func (a *attached) connect(ctx context.Context, address Address) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	if address.Network != "unix" {
		var d net.Dialer
		return d.DialContext(ctx, address.Network, address.Path)
	}
	socket, err := trust.Dial(ctx, address.Path)
	if err != nil {
		return nil, err
	}
	who, err := trust.Peer(socket)
	a.pid = int(who.PID)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("who listens there: %w", err), socket.Close())
	}
	return socket, nil
}

// watch ends the life of the plugin, as this engine sees it, with the connection.
func (a *attached) watch(p *process) {
	a.conn.Connect()
	for state := a.conn.GetState(); ; state = a.conn.GetState() {
		if state == connectivity.TransientFailure || state == connectivity.Shutdown {
			p.end(errors.New("the connection to the attached plugin has ended"))
			return
		}
		if state == connectivity.Idle { // after having been connected; the next try fails
			a.conn.Connect()
		}
		if !a.conn.WaitForStateChange(p.life, state) {
			return
		}
	}
}

// leave lets go of the plugin. It may be attached to again.
func (a *attached) leave() {
	if a.conn != nil {
		_ = a.conn.Close()
	}
}

// notKilled says in the log what a breakpoint may have been the reason for.
func (a *attached) notKilled(log *slog.Logger, why error) {
	log.Warn("an attached plugin is never killed", "pid", a.pid, "would have been killed because", why)
}

// Package rank lets a program be a rank: join the agent of its host, form groups, all-reduce.
package rank

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// The variables by which `weir run` tells a rank who it is. A program that is started otherwise sets them itself or
// fills Options.
const (
	EnvSocket    = rankv1.EnvSocket    // path of the agent's socket
	EnvRank      = rankv1.EnvRank      // from 0
	EnvWorldSize = rankv1.EnvWorldSize // number of ranks
)

// Options say where to join and as what. The zero value takes everything from the environment.
type Options struct {
	Socket    string // "": EnvSocket
	Rank      int    // used if WorldSize is set
	WorldSize int    // 0: EnvRank and EnvWorldSize
}

// Join connects to the agent and waits until every rank has. ctx bounds the wait; the agent has its own deadline and
// its error names the ranks that are missing.
func Join(ctx context.Context, opts Options) (*Session, error) {
	if err := opts.complete(os.Getenv); err != nil {
		return nil, fmt.Errorf("join: %w", err)
	}
	var dialer net.Dialer
	socket, err := dialer.DialContext(ctx, "unix", opts.Socket)
	if err != nil {
		return nil, fmt.Errorf("join: no agent answers at %s (is `weir run` or `weir agent` running?): %w", opts.Socket, err)
	}
	s := newSession(rankv1.NewConn(socket.(*net.UnixConn)), opts)
	host, err := os.Hostname()
	if err != nil {
		host = "" // only ever compared with other ranks'
	}
	facts := pluginv1.FromRank(collective.Rank{PID: os.Getpid(), Host: host})
	reply, err := s.ask(ctx, &rankv1.FromRank{Body: &rankv1.FromRank_Join{Join: &rankv1.Join{
		Version: rankv1.ProtocolVersion, Rank: int32(opts.Rank), WorldSize: int32(opts.WorldSize), Facts: facts,
	}}})
	if err == nil {
		s.world, err = s.open(reply)
	}
	if err != nil {
		s.disconnect()
		return nil, fmt.Errorf("join as rank %d of %d: %w", opts.Rank, opts.WorldSize, err)
	}
	return s, nil
}

// complete fills what is not set from the environment.
func (o *Options) complete(getenv func(string) string) error {
	if o.Socket == "" {
		if o.Socket = getenv(EnvSocket); o.Socket == "" {
			return fmt.Errorf("%s is not set; start the program with `weir run -n N -- PROGRAM`", EnvSocket)
		}
	}
	if o.WorldSize == 0 {
		for _, v := range []struct {
			name string
			dst  *int
		}{{EnvRank, &o.Rank}, {EnvWorldSize, &o.WorldSize}} {
			n, err := strconv.Atoi(getenv(v.name))
			if err != nil {
				return fmt.Errorf("%s=%q is not a number", v.name, getenv(v.name))
			}
			*v.dst = n
		}
	}
	if o.WorldSize < 1 || o.Rank < 0 || o.Rank >= o.WorldSize {
		return fmt.Errorf("rank %d of %d does not exist", o.Rank, o.WorldSize)
	}
	return nil
}

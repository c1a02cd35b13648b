// Package rank lets a program be a rank: join the agent of its host, form groups, all-reduce.
package rank

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/internal/device"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
	"github.com/weir-project/weir/sdk/proto/rankv1"
	"github.com/weir-project/weir/sdk/proto/trust"
)

// The variables by which `weir run` tells a rank who it is. A program that is started otherwise sets them itself or
// fills Options.
const (
	EnvSocket    = rankv1.EnvSocket    // path of the agent's socket
	EnvRank      = rankv1.EnvRank      // from 0
	EnvWorldSize = rankv1.EnvWorldSize // number of ranks
	EnvDevice    = rankv1.EnvDevice    // the GPU to use; not set by weir run
)

// Options say where to join and as what. The zero value takes everything from the environment.
type Options struct {
	Socket    string // "": EnvSocket
	Rank      int    // or AnyRank; used if WorldSize is set
	WorldSize int    // 0: EnvRank and EnvWorldSize

	// Device is the GPU that the rank's calls on device memory use: an index as CUDA counts, a UUID, a PCI bus id, or
	// DeviceAuto. "" takes EnvDevice; a rank without either has none.
	Device string
}

// AnyRank has the agent choose: rather the given rank, else the lowest that no process is yet. World().Rank() tells which.
func AnyRank(rather int) int { return rankv1.AnyRank(rather) }

// DeviceAuto is the GPU whose index is the rank modulo the number of GPUs that the process may use.
const DeviceAuto = device.Auto

// Join connects to the agent and waits until every rank has. ctx bounds the wait; the agent has its own deadline and
// its error names the ranks that are missing.
func Join(ctx context.Context, opts Options) (*Session, error) {
	if err := opts.complete(os.Getenv); err != nil {
		return nil, fmt.Errorf("join: %w", err)
	}
	facts, gpu, err := ownFacts(opts)
	if err != nil {
		return nil, fmt.Errorf("join as %s: %w", opts.who(), err)
	}
	socket, err := trust.Dial(ctx, opts.Socket) // what the agent says to load runs in this process
	if err != nil {
		gpu.close()
		return nil, noAgent(opts.Socket, err)
	}
	s := newSession(rankv1.NewConn(socket), opts)
	s.gpu = gpu
	reply, err := s.join(ctx, opts, facts)
	if err == nil {
		s.world, err = s.open(reply)
	}
	if err != nil {
		s.disconnect()
		gpu.close()
		return nil, fmt.Errorf("join as %s: %w", opts.who(), err)
	}
	return s, nil
}

// join says who this process is and waits until all ranks have.
func (s *Session) join(ctx context.Context, opts Options, facts collective.Rank) (*reply, error) {
	m := &rankv1.FromRank{Body: &rankv1.FromRank_Join{Join: &rankv1.Join{
		Version: rankv1.ProtocolVersion, Rank: int32(opts.Rank), WorldSize: int32(opts.WorldSize), Facts: pluginv1.FromRank(facts),
	}}}
	if n := proto.Size(m); n > rankv1.MaxJoin {
		return nil, fmt.Errorf("what is known of this process has %d bytes, an agent takes %d: host name, driver, devices and libraries", n, rankv1.MaxJoin)
	}
	return s.ask(ctx, m)
}

// noAgent is the error for a socket at which no agent is that this rank may believe.
func noAgent(socket string, err error) error {
	if errors.Is(err, trust.ErrStranger) {
		return fmt.Errorf("join: the agent's socket %s is not trusted: %w", socket, err)
	}
	return fmt.Errorf("join: no agent answers at %s (is `weir run` or `weir agent` running?): %w", socket, err)
}

func (o Options) who() string {
	if o.Rank < 0 {
		return fmt.Sprintf("any rank of %d", o.WorldSize)
	}
	return fmt.Sprintf("rank %d of %d", o.Rank, o.WorldSize)
}

// ownFacts are what this process brings; gpu is nil if it joins without a device.
func ownFacts(opts Options) (collective.Rank, *gpu, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "" // only ever compared with other ranks'
	}
	facts := collective.Rank{PID: os.Getpid(), Host: host, NUMA: numaNode(os.DirFS("/sys"), ownCores())}
	if opts.Device == "" {
		return facts, nil, nil
	}
	gpu, err := openGPU(opts.Device, opts.Rank, &facts)
	return facts, gpu, err
}

// complete fills what is not set from the environment.
func (o *Options) complete(getenv func(string) string) error {
	if o.Socket == "" {
		if o.Socket = getenv(EnvSocket); o.Socket == "" {
			return fmt.Errorf("%s is not set; start the program with `weir run -n N -- PROGRAM`", EnvSocket)
		}
	}
	if o.Device == "" {
		o.Device = getenv(EnvDevice)
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
		if o.Rank < 0 {
			return fmt.Errorf("rank %d of %d does not exist", o.Rank, o.WorldSize)
		}
	}
	if o.WorldSize < 1 || o.Rank >= o.WorldSize {
		return fmt.Errorf("rank %d of %d does not exist", o.Rank, o.WorldSize)
	}
	if o.Rank < 0 && o.Device == DeviceAuto {
		return fmt.Errorf("device %q is chosen by the rank, which is not known before: name the device", DeviceAuto)
	}
	return nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"github.com/weir-project/weir/tests/await"
)

// agent is a running `weir agent`.
type agent struct {
	*child
	socket string // the variable that ranks are given
}

func (r *round) startAgent() (*agent, error) {
	env := []string{fmt.Sprintf("WEIR_GROUP__DEADLINE=%s", fatalDeadline)}
	if r.faults[0].arg == "on workers" {
		env = append(env, r.workers("fine@", "fine@")...)
	}
	if r.device {
		env = append(env, r.stage()...)
	}
	said := newTranscript()
	c, err := r.start(r.command(env, filepath.Join(r.bin, "weir"), []string{"agent", "-q", "--ranks", strconv.Itoa(r.world)}, said))
	if err != nil {
		return nil, err
	}
	l, err := c.says(r.ctx, said, regexp.MustCompile(`^WEIR_AGENT_SOCKET=`))
	if err != nil {
		c.kill()
		return nil, err
	}
	r.engine = c.pid()
	return &agent{c, l.text}, nil
}

// stage are the variables of ranks, engines and plugins with stand-ins for CUDA and NCCL.
func (r *round) stage() []string {
	return []string{
		"LD_LIBRARY_PATH=" + filepath.Join(r.bin, "fakegpu"), "FAKE_CUDA_DEVICES=" + strconv.Itoa(r.world), "XDG_CACHE_HOME=" + r.own,
		"WEIR_PLUGINS__NCCL__DISABLED=false", "NCCL_HOSTID=",
	}
}

// stop asks the agent to end.
func (a *agent) stop() error {
	send(a.pid(), syscall.SIGTERM)
	err := a.wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 143 {
		return nil
	}
	return fmt.Errorf("the agent ended with %w", err)
}

// member is a rank's process of a job.
type member struct {
	*child
	said *transcript
}

// join starts the ranks of a job and waits until they call.
func (r *round) join(a *agent, checked ...string) ([]member, error) {
	var members []member
	for n := range r.world {
		env := []string{a.socket, fmt.Sprintf("WEIR_RANK=%d", n), fmt.Sprintf("WEIR_WORLD_SIZE=%d", r.world)}
		if r.device {
			env = append(env, r.stage()...)
		}
		said := newTranscript()
		c, err := r.start(r.command(env, filepath.Join(r.bin, "programs", "checked"), r.checked(checked...), said))
		if err != nil {
			disband(members)
			return nil, err
		}
		members = append(members, member{c, said})
	}
	limit := await.For(30 * time.Second)
	ctx, cancel := context.WithTimeoutCause(r.ctx, limit, fmt.Errorf("the ranks do not call within %s", limit))
	defer cancel()
	if _, err := members[0].says(ctx, members[0].said, calling); err != nil {
		disband(members)
		return nil, err
	}
	return members, nil
}

// disband ends what is left of a job.
func disband(members []member) {
	for _, m := range members {
		select {
		case <-m.ended:
		default:
			m.kill()
		}
	}
}

package rank

import (
	"errors"
	"fmt"
	"time"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/internal/exec"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// shared is a communicator that several classes of a group use: making one takes a second and hundreds of megabytes of
// device memory.
type shared struct {
	library *exec.Library
	users   int // instances
}

// prepareLibrary makes a library plan ready up to where the ranks need each other. g.mu is held.
func (d *decider) prepareLibrary(m *rankv1.Instance, p *plan.Library) error {
	g := d.group
	if d.class.Memory != collective.CUDA {
		return fmt.Errorf("library plans do not run on %s memory", d.class.Memory)
	}
	if g.session.gpu == nil {
		return errors.New(noDevice)
	}
	key := *p
	s := g.libraries[key]
	if s == nil {
		if err := g.session.messages(); err != nil {
			return err
		}
		l, offer, err := exec.OpenLibrary(p, g.session.gpu.device, g.facts, g.rank, g.inCall)
		if err != nil {
			return err
		}
		s = &shared{library: l}
		g.libraries[key] = s
		d.offers[m.Id] = offer
	}
	s.users++
	g.instances[m.Id] = &instance{backend: m.Backend, library: s.library, key: key}
	return nil
}

// connect makes the communicators that the ranks have told each other of.
func (d *decider) connect(m *rankv1.Connect) error {
	g := d.group
	done := &rankv1.StepDone{StartUnixNs: time.Now().UnixNano()}
	end := time.Now().Add(time.Duration(m.DeadlineNs))
	for _, peers := range m.Instances {
		outcome := &rankv1.Outcome{Instance: peers.Instance}
		g.mu.Lock()
		i := g.instances[peers.Instance]
		g.mu.Unlock()
		err := errors.New("it was never prepared")
		if i != nil && i.library != nil {
			err = i.library.Connect(peers.Data, time.Until(end))
		}
		if err != nil {
			outcome.Reason = pluginv1.FromReason(g.reason(backend.InitFailed, err))
		}
		done.Outcomes = append(done.Outcomes, outcome)
	}
	g.session.gpu.watch(g.session)
	return d.report(done)
}

// reason is the outcome of a step that failed in this rank, with the error's own code if it has one.
func (g *Group) reason(code backend.Code, err error) backend.Reason {
	r := g.refused(code, err)
	var f *backend.Fault
	if errors.As(err, &f) {
		r.Code = f.Code
		if f.Rank != backend.AnyRank {
			r.Rank = f.Rank
		}
	}
	return r
}

// tryLibrary is the self-test of an instance.
func (d *decider) tryLibrary(i *instance, ranges []backend.Range, deadline time.Duration) error {
	g := d.group
	return i.library.SelfTest(d.class, ranges, deadline, func() error {
		if e := g.dead.Load(); e != nil {
			return e
		}
		return nil
	})
}

// drop gives up an instance's share in a communicator, which goes with the last. g.mu is held.
func (g *Group) drop(i *instance) {
	s := g.libraries[i.key]
	if i.library == nil || s == nil {
		return
	}
	if s.users--; s.users == 0 {
		delete(g.libraries, i.key)
		go s.library.Abort() // nobody's call is outstanding, and a peer may have failed where this rank did not
	}
}

// closePatience bounds how long a rank that leaves a group waits for what its streams still hold.
const closePatience = 10 * time.Second

// closeLibraries gives the group's communicators up when it is closed.
func closeLibraries(libraries map[plan.Library]*shared, dead bool) error {
	var errs []error
	for _, s := range libraries {
		if dead {
			s.library.Abort()
		} else {
			errs = append(errs, s.library.Close(closePatience))
		}
	}
	return errors.Join(errs...)
}

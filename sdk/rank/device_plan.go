package rank

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/internal/exec"
	"github.com/weir-project/weir/sdk/native/cuda"
	"github.com/weir-project/weir/sdk/proto/pluginv1"
	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// deviceCaller makes calls on device memory.
type deviceCaller interface {
	// Run makes a call unless the stream is being captured, which it reports.
	Run(exec.DeviceCall) (captured bool, err error)
	// RunCaptured makes a call part of the graph that the stream is captured into.
	RunCaptured(exec.DeviceCall) error
	// Over reports whether calls fail because the plan has been aborted or closed.
	Over() bool
}

// deviceLife is what is done with a plan for device memory beside calls. One goroutine may call Watch and Abort while others
// call the rest.
type deviceLife interface {
	Connect(offers [][]byte, files []*os.File, deadline time.Duration) error
	Watch(now time.Time) error // what went wrong after a call had returned
	Abort()
	Close(patience time.Duration) error
}

// devicePlan is a plan for device memory, prepared.
type devicePlan interface {
	deviceCaller
	deviceLife
	SelfTest(class collective.Class, ranges []backend.Range, deadline time.Duration, stopped func() error) error
}

// shared is a plan that several classes of a group use: a communicator takes a second and hundreds of megabytes of device
// memory, and kernels of one plan know of each other through the words that they share.
type shared struct {
	plan  devicePlan
	users int // instances
}

// offered is what the peers need from this rank to connect a plan.
type offered struct {
	data []byte
	file *os.File // nil for none
}

// prepareDevice makes a plan for device memory ready up to where the ranks need each other. g.mu is held.
func (d *decider) prepareDevice(m *rankv1.Instance, p plan.Plan, memory *sharedFile) error {
	g := d.group
	if d.class.Memory != collective.CUDA {
		return fmt.Errorf("%s plans do not run on %s memory", p.Kind(), d.class.Memory)
	}
	if g.session.gpu == nil {
		return errors.New(noDevice)
	}
	var key string
	var open func() (devicePlan, offered, error)
	switch p := p.(type) {
	case *plan.Library:
		key, open = fmt.Sprintf("%#v", *p), func() (devicePlan, offered, error) { return g.openLibrary(p) }
	case *plan.Kernel:
		key, open = p.Key(), func() (devicePlan, offered, error) { return g.openKernel(p, memory) }
	default:
		return fmt.Errorf("%s plans do not run on %s memory", p.Kind(), d.class.Memory)
	}
	s := g.devicePlans[key]
	if s == nil {
		x, offer, err := open()
		if err != nil {
			return err
		}
		s = &shared{plan: x}
		g.devicePlans[key] = s
		d.offers[m.Id] = offer
	}
	s.users++
	g.instances[m.Id] = &instance{backend: m.Backend, device: s.plan, key: key}
	return nil
}

func (g *Group) openLibrary(p *plan.Library) (devicePlan, offered, error) {
	if err := g.session.messages(); err != nil {
		return nil, offered{}, err
	}
	l, offer, err := exec.OpenLibrary(p, g.session.gpu.device, g.facts, g.rank, g.InCall)
	if err != nil {
		return nil, offered{}, err
	}
	return l, offered{data: offer}, nil
}

func (g *Group) openKernel(p *plan.Kernel, memory *sharedFile) (devicePlan, offered, error) {
	if g.order == nil {
		g.order = exec.NewOrder(g.session.gpu.device)
	}
	o := exec.KernelOptions{Device: g.session.gpu.device, Group: g.facts, Rank: g.rank, Order: g.order, Deadline: g.deadline, Busy: g.InCall}
	if size := p.HostStride() * int64(g.Size()); size > 0 {
		if memory == nil {
			return nil, offered{}, errors.New("the agent sent no memory for the plan")
		}
		host, err := memory.mapAll(size)
		if err != nil {
			return nil, offered{}, err
		}
		o.Host, o.Unmap = host, func() error { return unix.Munmap(host) }
	}
	k, offer, file, err := exec.OpenKernel(p, o)
	if err != nil {
		return nil, offered{}, err
	}
	return k, offered{data: offer, file: file}, nil
}

// connect makes of the plans what the ranks have told each other of.
func (d *decider) connect(m *rankv1.Connect, files []sharedFile) error {
	g := d.group
	done := &rankv1.StepDone{StartUnixNs: time.Now().UnixNano()}
	end := time.Now().Add(time.Duration(m.DeadlineNs))
	for _, peers := range m.Instances {
		of := make([]*os.File, len(peers.Data))
		for r := range peers.Data {
			if r < len(peers.Files) && peers.Files[r] {
				of[r], files = files[0].file, files[1:]
			}
		}
		outcome := &rankv1.Outcome{Instance: peers.Instance}
		g.mu.Lock()
		i := g.instances[peers.Instance]
		g.mu.Unlock()
		err := errNotPrepared
		if i != nil && i.device != nil {
			err = i.device.Connect(peers.Data, of, time.Until(end))
		}
		if err != nil {
			outcome.Reason = pluginv1.FromReason(g.reason(backend.InitFailed, err))
		}
		done.Outcomes = append(done.Outcomes, outcome)
	}
	if gpu := g.session.gpu; gpu != nil { // otherwise nothing was connected
		gpu.watch(g.session)
	}
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

// abortable is a plan whose kernels say that they leave when they are told to.
type abortable interface {
	AbortTest(class collective.Class, ranges []backend.Range) error
}

// tryDevice is the self-test of an instance. In processes that are thrown away, abort has it tried whether kernels leave
// when they are told to.
//
// The error is a reason to decline the backend, but where the context is of no more use or calls of other classes cannot go
// on: that is the end of the group, and the agent is told before it hears of the step.
func (d *decider) tryDevice(i *instance, ranges []backend.Range, deadline time.Duration, abort bool) error {
	g := d.group
	err := i.device.SelfTest(d.class, ranges, deadline, func() error {
		if e := g.dead.Load(); e != nil {
			return e
		}
		return nil
	})
	if a, ok := i.device.(abortable); ok && err == nil && abort {
		return a.AbortTest(d.class, ranges)
	}
	if err == nil {
		return nil
	}
	g.mu.Lock()
	others := g.devicePlans[i.key] != nil && g.devicePlans[i.key].users > 1
	g.mu.Unlock()
	if cuda.Sticky(err) || others && i.device.Over() {
		return g.broken(g.calls, fmt.Errorf("rank %d: %s: %w", g.rank, i.backend, err))
	}
	return err
}

// drop gives up an instance's share in a plan, which goes with the last. g.mu is held.
func (g *Group) drop(i *instance) {
	s := g.devicePlans[i.key]
	if i.device == nil || s == nil {
		return
	}
	if s.users--; s.users == 0 {
		delete(g.devicePlans, i.key)
		go s.plan.Abort() // nobody's call is outstanding, and a peer may have failed where this rank did not
	}
}

// closePatience bounds how long a rank that leaves a group waits for what its streams still hold.
const closePatience = 10 * time.Second

// closeDevicePlans gives the group's plans for device memory up when it is closed.
func closeDevicePlans(plans map[string]*shared, dead bool) error {
	var errs []error
	for _, s := range plans {
		if dead {
			s.plan.Abort()
		} else {
			errs = append(errs, s.plan.Close(closePatience))
		}
	}
	return errors.Join(errs...)
}

var (
	_ devicePlan = (*exec.Library)(nil)
	_ devicePlan = (*exec.Kernel)(nil)
	_ abortable  = (*exec.Kernel)(nil)
)

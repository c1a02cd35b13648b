package exec

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/internal/device"
	"github.com/weir-project/weir/sdk/native/cuda"
)

// SelfTest makes all-reduces whose result is known, around every row of the launch table. All ranks run it at the same
// time. stopped is asked while it waits.
func (k *Kernel) SelfTest(class collective.Class, ranges []backend.Range, deadline time.Duration, stopped func() error) error {
	if !k.watch.ready.Load() {
		return errNotReady
	}
	k.trying.Store(true)
	defer k.trying.Store(false)
	t := &device.Trial{Exec: k.spare, Stopped: func() error {
		if err := k.fault(); err != nil {
			return err
		}
		return stopped()
	}}
	var edges []int64
	for _, r := range k.rows[class.DataType] {
		edges = append(edges, r.max)
	}
	return selfTestPlan(tried{k}, t, k.ended, trialOf{device: k.device, rank: k.rank, world: k.world, class: class, ranges: ranges, edges: edges, deadline: deadline, what: "the kernels"})
}

// tried is a plan whose graphs are given up by who made them, and do not keep it: what they are launched from outlives them.
type tried struct{ *Kernel }

func (k tried) RunCaptured(c DeviceCall) error {
	return k.capture(c, func(cuda.Capture) error { return nil })
}

// Limits of AbortTest.
const (
	withheldFor = 50 * time.Millisecond // kernels must still wait then
	leaveWithin = time.Second
)

// AbortTest finds out whether the kernels leave when they are told to while a peer is missing: the last rank's. The plan is
// of no more use afterwards. It is for processes that are thrown away.
func (k *Kernel) AbortTest(class collective.Class, ranges []backend.Range) error {
	sizes := TestSizes(class.DataType, ranges, nil, selfTestLimit)
	if !k.plan.PollsAbort || k.world == 1 || len(sizes) == 0 {
		return nil
	}
	defer k.Abort()
	if k.rank == k.world-1 {
		return nil
	}
	return k.device.Do(func() error {
		bytes := slices.Max(sizes)
		p, err := k.device.API.Alloc(bytes)
		if err != nil {
			return err
		}
		s, err := k.device.API.NewStream()
		if err != nil {
			return err
		}
		if _, err := k.Run(DeviceCall{Class: class, Dst: uintptr(p), Src: uintptr(p), Bytes: bytes, Stream: s}); err != nil {
			return err
		}
		time.Sleep(withheldFor)
		if done, err := k.device.API.StreamDone(s); err != nil || done {
			return errors.Join(err, fmt.Errorf("a call of %d bytes ended though rank %d had not made it", bytes, k.world-1))
		}
		k.tell()
		if err := k.device.Wait(s, time.Now().Add(leaveWithin), nil); err != nil {
			return fmt.Errorf("a call of %d bytes did not end within %s after the abort word was set, while rank %d had not made it: %w", bytes, leaveWithin, k.world-1, err)
		}
		return errors.Join(k.device.API.Free(p), k.device.API.DestroyStream(s))
	})
}

// runner is what selfTestPlan tries.
type runner interface {
	Run(DeviceCall) (captured bool, err error)
	RunCaptured(DeviceCall) error
	Abort()
}

// trialOf says what selfTestPlan tries.
type trialOf struct {
	device      *device.Device
	rank, world int
	class       collective.Class
	ranges      []backend.Range
	edges       []int64 // byte counts at which the plan changes what it does
	deadline    time.Duration
	what        string // in errors
}

// selfTestPlan runs a plan for device memory on inputs with known results. One that does not come back in time, or fails
// rather than gives a wrong result, is aborted; ended is closed when it uses the device no more.
func selfTestPlan(p runner, t *device.Trial, ended <-chan struct{}, of trialOf) error {
	t.Device, t.Captured, t.Deadline = of.device, of.class.Captured, time.Now().Add(of.deadline)
	t.Enqueue = func(dst, src cuda.Pointer, bytes int64, s cuda.Stream) error {
		c := DeviceCall{Class: of.class, Dst: uintptr(dst), Src: uintptr(src), Bytes: bytes, Stream: s}
		captured, err := p.Run(c)
		if captured {
			return p.RunCaptured(c)
		}
		return err
	}
	dead := make(chan bool, 1)
	err := inTime(of.deadline, func() error {
		broken, err := SelfTestDevice(t, of.rank, of.world, of.class, of.ranges, of.edges)
		dead <- broken
		return err
	})
	if err == errLate {
		p.Abort()
		return fmt.Errorf("%s did not finish the self-test within %s", of.what, of.deadline.Round(time.Millisecond))
	}
	if <-dead {
		p.Abort()
		go func() {
			<-ended // nothing uses the buffers any more
			_ = t.Close()
		}()
		return err
	}
	return errors.Join(err, t.Close())
}

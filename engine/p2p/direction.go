package p2p

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/weir-project/weir/core/topology"
)

// trial is one direction in progress.
type trial struct {
	*verifier
	Direction
	ctx context.Context
	by  time.Time
}

// direction tries one; number differs between those of a proof.
func (v *verifier) direction(ctx context.Context, d Direction, number uint64) Result {
	untried := func(why string) Result { return Result{Direction: d, Why: why} }
	if d.From == d.To {
		return Result{Direction: d, Found: topology.P2PVerified} // a GPU reaches its own memory
	}
	v.open(ctx, []int{d.From, d.To}) // again, after a fault
	if ctx.Err() != nil {
		return untried(v.outOfTime(ctx))
	}
	for _, x := range []int{d.To, d.From} {
		if v.broken[x] != "" {
			return untried(v.name(x) + ": " + v.broken[x])
		}
	}
	t := trial{verifier: v, Direction: d, ctx: ctx, by: v.by(ctx, v.opts.Direction)}
	r := t.run(number)
	if ctx.Err() != nil && r.Found == topology.P2PFailed { // it may be the end of the time that was too early
		return untried(v.outOfTime(ctx))
	}
	return r
}

func (v *verifier) outOfTime(ctx context.Context) string {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Sprintf("not tried: all directions together may take %s", v.opts.Overall)
	}
	return "not tried: interrupted"
}

// run tries the direction: the memory is offered, taken, written and looked at. It leaves workers that are fit for the next.
func (t trial) run(number uint64) Result {
	r := Result{Direction: t.Direction}
	_, file, err := t.call(t.To, request{Op: opOffer})
	if err != nil {
		r.Why = fmt.Sprintf("%s cannot offer memory: %s", t.name(t.To), err)
		return t.broke(r, t.To)
	}
	taken, _, err := t.callWith(t.From, request{Op: opTake, Device: t.devices[t.To].Identity()}, file)
	_ = file.Close()
	switch {
	case taken.Unseen != "":
		r.Why = fmt.Sprintf("%s does not have %s in its process: %s", t.name(t.From), t.name(t.To), taken.Unseen)
		return t.drop(r)
	case taken.Refused != "":
		r.Found, r.Why = topology.P2PNone, taken.Refused
		return t.drop(r)
	case err != nil:
		r.Found, r.Why = topology.P2PFailed, fmt.Sprintf("%s could not map the memory of %s: %s", t.name(t.From), t.name(t.To), err)
		return t.broke(r, t.From, t.To)
	}
	for i, x := range rounds(number) {
		if _, _, err := t.call(t.To, request{Op: opArm, Round: x}); err != nil {
			r.Why = fmt.Sprintf("%s: %s", t.name(t.To), err)
			if i > 0 { // after it was written to
				r.Found = topology.P2PFailed
			}
			return t.broke(r, t.From, t.To)
		}
		if why, sound := t.round(x); why != "" {
			r.Found, r.Why = topology.P2PFailed, why
			if sound {
				return t.drop(r)
			}
			return t.broke(r, t.From, t.To)
		}
	}
	r.Found = topology.P2PVerified
	return t.drop(r)
}

// round writes once to a GPU that waits for it. sound is whether the workers are fit for more although something was wrong.
func (t trial) round(x round) (why string, sound bool) {
	_, _, err := t.call(t.From, request{Op: opWrite, Round: x, Patience: t.opts.Direction / 2})
	if err != nil {
		return fmt.Sprintf("%s could not write: %s", t.name(t.From), err), false
	}
	r, _, err := t.call(t.To, request{Op: opCheck, Round: x, Patience: t.opts.Patience})
	if err != nil {
		return fmt.Sprintf("%s, while it was written to: %s", t.name(t.To), err), false
	}
	return r.Found.fault(x), true
}

func (t trial) call(device int, q request) (reply, *os.File, error) {
	return t.callWith(device, q, nil)
}

// callWith is process.call, with what the worker says went wrong as an error.
func (t trial) callWith(device int, q request, file *os.File) (reply, *os.File, error) {
	r, out, err := t.workers[device].call(t.ctx, q, file, t.by)
	if err == nil && r.Error != "" {
		err = errors.New(r.Error)
	}
	return r, out, err
}

// drop gives the memory up.
func (t trial) drop(r Result) Result {
	for _, x := range []int{t.From, t.To} { // the mapping before the memory
		if _, _, err := t.call(x, request{Op: opDrop}); err != nil {
			return t.broke(r, t.From, t.To)
		}
	}
	return r
}

// broke ends workers that may be unfit for the next direction; new ones are started then.
func (t trial) broke(r Result, devices ...int) Result {
	for _, d := range devices {
		t.kill(d)
	}
	return r
}

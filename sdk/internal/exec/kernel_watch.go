package exec

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-project/weir/core/backend"
)

// The values of weir_fault.
const (
	faultVersion  = 1
	faultInFlight = 2
	faultSize     = 3
)

// kernelWatch is what is remembered of what the kernels have said.
type kernelWatch struct {
	ready atomic.Bool // the ranks have connected

	mu     sync.Mutex
	status *kernelStatus // nil once it has been given back
	seen   uint64        // waiting, when it last changed
	waited Waited        // since then
}

// Over reports whether calls fail because the plan has been aborted or closed.
func (k *Kernel) Over() bool { return k.over.Load() }

// Watch is what went wrong after a call had returned; nil for nothing. It may be called at any time.
func (k *Kernel) Watch(now time.Time) error {
	if k.over.Load() || !k.watch.ready.Load() {
		return nil
	}
	if err := k.fault(); err != nil {
		return err
	}
	idle, err := k.order.idle()
	if err != nil {
		return fmt.Errorf("the device: %w", err)
	}
	if idle && k.pins.live() == 0 {
		return nil // whatever a kernel said last
	}
	if rank, late := k.stuck(now); late && !k.trying.Load() {
		return fmt.Errorf("waited for rank %d on the device for %s: it did not come to this call, or to a replay of a graph with it", rank, k.patient)
	}
	return nil
}

// fault is what a kernel refused.
func (k *Kernel) fault() error {
	w := &k.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.status == nil {
		return nil
	}
	switch f := atomic.LoadUint32(&w.status.fault); f {
	case 0:
		return nil
	case faultVersion:
		return fmt.Errorf("%s: the kernel was built for another version of weir_kernel.h than %d", backend.Version, headerVersion)
	case faultInFlight:
		return fmt.Errorf("%s: another call or graph of this group was still running: order them by events, the same way on all ranks", backend.InFlight)
	case faultSize:
		return errors.New("a kernel was given more elements than the plan's buffer or grid is made for")
	default:
		return fmt.Errorf("a kernel reports fault %d", f)
	}
}

// stuck reports whether the kernels have waited for one rank's part in one call for longer than a call may take.
func (k *Kernel) stuck(now time.Time) (rank int, late bool) {
	w := &k.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.status == nil {
		return 0, false
	}
	waiting := atomic.LoadUint64(&w.status.waiting)
	if uint32(waiting) == 0 || waiting != w.seen {
		w.seen, w.waited = waiting, Waited{}
		w.waited.Until(now)
		return 0, false
	}
	return int(uint32(waiting)) - 1, w.waited.Until(now) > k.patient
}

// Abort ends the plan at once: kernels that wait leave, results are undefined, later calls fail. It waits for nothing.
func (k *Kernel) Abort() {
	k.tell()
	k.end()
}

// tell sets the word at which kernels leave.
func (k *Kernel) tell() {
	k.over.Store(true)
	k.watch.mu.Lock()
	defer k.watch.mu.Unlock()
	if k.watch.status != nil {
		atomic.StoreUint32(&k.watch.status.abort, 1)
	}
}

// end gives everything back in the background, once, when no kernel can use it any more.
func (k *Kernel) end() {
	k.over.Store(true)
	k.ending.Do(func() {
		go func() {
			defer close(k.ended)
			for end := time.Now().Add(leavePatience); k.busy() && time.Now().Before(end); {
				time.Sleep(100 * time.Microsecond)
			}
			k.linger()
			_ = k.free() // there is nobody to tell
		}()
	})
}

// linger returns when all kernels have left and no graph is left that would launch another. The group may be gone, so it
// looks itself whether a peer is missing.
func (k *Kernel) linger() {
	for nap := 100 * time.Microsecond; ; nap = min(2*nap, 20*time.Millisecond) {
		if k.pins.live() == 0 {
			if done, err := k.order.idle(); done || err != nil {
				return
			}
		}
		if _, late := k.stuck(time.Now()); late {
			k.tell()
		}
		time.Sleep(nap)
	}
}

// Close gives the plan up after what is outstanding, and waits for that at most as long as said. While graphs hold calls of
// it, it stays until they are destroyed.
func (k *Kernel) Close(patience time.Duration) error {
	k.end()
	if k.pins.live() > 0 {
		return nil // with the graphs
	}
	select {
	case <-k.ended:
		return nil
	case <-time.After(patience):
		return fmt.Errorf("kernels did not end within %s", patience)
	}
}

package workerv1

import (
	"math"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	futexWait  = 0 // shared between processes, so without FUTEX_PRIVATE_FLAG
	futexWake  = 1
	allWaiters = math.MaxInt32
)

// RingDoorbell wakes the worker if it sleeps. The last rank to arrive at a tile calls it.
func (m *Memory) RingDoorbell() { m.ring(offDoorbell, offAsleep, 1) }

// ring changes a futex and wakes who sleeps on it; without sleepers it makes no system call.
func (m *Memory) ring(bell, sleepers, most int) {
	atomic.AddUint32(m.word32(bell), 1)
	if atomic.LoadUint32(m.word32(sleepers)) != 0 {
		_, _, _ = unix.RawSyscall(unix.SYS_FUTEX, uintptr(unsafe.Pointer(m.word32(bell))), futexWake, uintptr(most))
	}
}

// AwaitDoorbell sleeps until the doorbell rings, unless ready says that there is no need, at most as long as said. Only
// the worker calls it.
func (m *Memory) AwaitDoorbell(ready func() bool, most time.Duration) {
	m.sleep(offDoorbell, offAsleep, ready, most)
}

// AwaitBell sleeps until a tile is completed or given up, in the same way. Ranks call it.
func (m *Memory) AwaitBell(ready func() bool, most time.Duration) {
	m.sleep(offBell, offWaiting, ready, most)
}

func (m *Memory) sleep(bell, sleepers int, ready func() bool, most time.Duration) {
	atomic.AddUint32(m.word32(sleepers), 1)
	before := atomic.LoadUint32(m.word32(bell))
	if !ready() { // looked at after who rings can know of the sleeper
		t := unix.NsecToTimespec(int64(most))
		_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(m.word32(bell))), futexWait, uintptr(before), uintptr(unsafe.Pointer(&t)), 0, 0)
	}
	atomic.AddUint32(m.word32(sleepers), ^uint32(0))
}

// Stop tells the worker that it is no longer wanted. Only the agent calls it.
func (m *Memory) Stop() {
	atomic.StoreUint32(m.word32(offStop), 1)
	m.ring(offDoorbell, offAsleep, allWaiters)
}

// Stopped reports whether the agent has called Stop.
func (m *Memory) Stopped() bool { return atomic.LoadUint32(m.word32(offStop)) != 0 }

package exec

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/weir-project/weir/sdk/native/cuda"
	"github.com/weir-project/weir/sdk/native/dl"
)

// pins count the graphs that hold calls of a plan. Its zero value counts none.
//
// The driver tells of a graph's end by calling a C function on a thread of its own. That function is the C library's
// sem_post, so that no Go code runs there; the semaphore's value is the number of graphs that have gone.
type pins struct {
	last  atomic.Uint64 // id of the last capture that was pinned
	made  atomic.Int64
	space *semaphore
}

// semaphore has the size of a sem_t of glibc on 64-bit machines, whose first word is the value.
type semaphore struct {
	value uint32
	_     [28]byte
}

var (
	pinsMu     sync.Mutex
	semPost    uintptr
	semaphores []*semaphore // never given back: a graph may outlive everything else
)

// pin has a graph that is being captured counted, once.
func (p *pins) pin(api *cuda.API, c cuda.Capture) error {
	if p.last.Load() == c.ID {
		return nil
	}
	pinsMu.Lock()
	defer pinsMu.Unlock()
	if semPost == 0 {
		libc, err := dl.Open("libc.so.6")
		if err == nil {
			semPost, err = libc.Symbol("sem_post")
		}
		if err != nil {
			return fmt.Errorf("sem_post: %w", err)
		}
	}
	if p.space == nil {
		p.space = &semaphore{}
		semaphores = append(semaphores, p.space)
	}
	if err := api.RetainUntilDestroyed(c.Graph, semPost, uintptr(unsafe.Pointer(p.space))); err != nil {
		return err
	}
	p.made.Add(1)
	p.last.Store(c.ID)
	return nil
}

// live is how many graphs there are now.
func (p *pins) live() int64 {
	made := p.made.Load()
	if made == 0 {
		return 0
	}
	return made - int64(atomic.LoadUint32(&p.space.value))
}

// wait returns when there is no graph any more.
func (p *pins) wait() {
	for p.live() > 0 {
		time.Sleep(10 * time.Millisecond)
	}
}

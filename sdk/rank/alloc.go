package rank

import (
	"context"
	"fmt"
	"math"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/internal/exec"
	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// Alloc returns registered memory: zeroed, aligned to 4096 bytes, and within reach of every rank of the group. All ranks
// call it with the same number of bytes and wait for one another; it counts towards shared.max_bytes until all have freed it. All-reduces whose
// dst and src both lie in such memory, anywhere, make one copy less; all ranks then pass registered memory. They are a
// request class of their own. Group.Free or Group.Close ends the memory's life.
func (g *Group) Alloc(ctx context.Context, bytes int) ([]byte, error) {
	if !g.enter() {
		return nil, g.busyError()
	}
	defer g.exit()
	if e := g.dead.Load(); e != nil {
		return nil, e
	}
	r, err := g.session.ask(ctx, &rankv1.FromRank{Body: &rankv1.FromRank_Alloc{Alloc: &rankv1.Alloc{Group: g.id, Bytes: int64(bytes)}}})
	if err != nil {
		return nil, fmt.Errorf("registered memory for group %s: %w", g.id, err)
	}
	defer r.discard()
	m := r.message.GetAllocated()
	if m == nil || len(r.files) != 1 || m.Stride < int64(bytes) || m.Stride > math.MaxInt64/int64(g.Size()) || !g.lacks(m.Window) {
		return nil, fmt.Errorf("registered memory for group %s: the agent answered with something else", g.id)
	}
	memory, err := r.files[0].mapAll(m.Stride * int64(g.Size()))
	if err != nil {
		return nil, g.broken(g.calls, fmt.Errorf("registered memory: %w", err)) // the other ranks have it
	}
	w := exec.Window{Base: unsafe.Pointer(&memory[0]), Stride: m.Stride, Bytes: int64(bytes)}
	windows := append([]exec.Window(nil), g.windows...)
	if int(m.Window) == len(windows) {
		windows = append(windows, w)
	} else {
		windows[m.Window] = w
	}
	g.setWindows(windows)
	return w.Part(g.rank), nil
}

// Free gives back memory that Alloc returned, on this rank; it waits for nobody. The memory must not be used afterwards.
func (g *Group) Free(memory []byte) error {
	if !g.enter() {
		return g.busyError()
	}
	defer g.exit()
	for i, w := range g.windows {
		if w.Base != nil && len(memory) > 0 && &w.Part(g.rank)[0] == &memory[0] {
			windows := append([]exec.Window(nil), g.windows...)
			windows[i] = exec.Window{} // the others keep their numbers; this one is given again when all ranks have freed it
			g.setWindows(windows)
			unmapWindow(w, g.Size())
			// An agent that is gone gives no other memory.
			_ = g.session.conn.Send(&rankv1.FromRank{Body: &rankv1.FromRank_Free{Free: &rankv1.Free{Group: g.id, Window: uint32(i)}}})
			return nil
		}
	}
	return fmt.Errorf("free memory of group %s: it is not what Alloc returned", g.id)
}

// lacks reports whether a window of that number may be added: it was freed, or follows the last.
func (g *Group) lacks(window uint32) bool {
	i := int(window)
	return i == len(g.windows) && i < rankv1.MaxWindows || i < len(g.windows) && g.windows[i].Base == nil
}

// setWindows tells every plan what is registered.
func (g *Group) setWindows(windows []exec.Window) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.windows = windows
	for _, i := range g.instances {
		if i.run != nil && !i.trying {
			i.run.SetWindows(windows)
		}
	}
}

func unmapWindow(w exec.Window, world int) {
	if w.Base != nil {
		_ = unix.Munmap(unsafe.Slice((*byte)(w.Base), w.Stride*int64(world)))
	}
}

// registered reports whether both buffers of a call lie in registered memory.
func (g *Group) registered(dst, src unsafe.Pointer, bytes int64) bool {
	in, _ := exec.Find(g.windows, g.rank, src, bytes)
	out, _ := exec.Find(g.windows, g.rank, dst, bytes)
	return in >= 0 && out >= 0
}

// As is registered memory, or any other, as elements of a type; what is left over at the end is cut off. It panics if
// the memory does not begin at a multiple of the element's size.
func As[T collective.Element](memory []byte) []T {
	var zero T
	size := unsafe.Sizeof(zero)
	at := unsafe.Pointer(unsafe.SliceData(memory))
	if uintptr(at)%size != 0 {
		panic(fmt.Sprintf("rank.As: memory at %p does not begin at a multiple of %d bytes", at, size))
	}
	return unsafe.Slice((*T)(at), uintptr(len(memory))/size)
}

package exec

import (
	"errors"
	"fmt"
	"time"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/sdk/native/cuda"
	"github.com/weir-project/weir/sdk/native/nccl"
)

// SymmetricWindow is device memory that the ranks of a library plan can reach in each other's devices.
type SymmetricWindow struct {
	Pointer uintptr
	Bytes   int64
	handle  nccl.Window
}

// Symmetric reports whether the plan is one for symmetric memory.
func (l *Library) Symmetric() bool { return l.symmetric }

// NewWindow takes memory and makes it a window. All ranks call it with as many bytes; it waits for them at most as long as
// said.
func (l *Library) NewWindow(bytes int64, patience time.Duration) (SymmetricWindow, error) {
	made := make(chan SymmetricWindow, 1)
	err := inTime(patience, func() error {
		return l.device.Do(func() error {
			p, err := l.api.MemAlloc(bytes)
			if err != nil {
				return err
			}
			h, err := l.api.RegisterWindow(l.comm, p, bytes)
			if err == nil && h == 0 {
				err = errNoWindow
			}
			if err != nil {
				return errors.Join(err, l.api.MemFree(p))
			}
			made <- SymmetricWindow{Pointer: p, Bytes: bytes, handle: h}
			return nil
		})
	})
	if err != nil {
		if err == errLate {
			err = fmt.Errorf("%s did not make a window within %s", l.api.Path(), patience)
		}
		return SymmetricWindow{}, err
	}
	return <-made, nil
}

var errNoWindow = errors.New("the library makes no window of symmetric memory")

// FreeWindow ends a window, when nothing uses it any more. All ranks call it.
func (l *Library) FreeWindow(w SymmetricWindow) error {
	return l.device.Do(func() error {
		return errors.Join(l.api.DeregisterWindow(l.comm, w.handle), l.api.MemFree(w.Pointer))
	})
}

// tryWindow finds out whether the communicator makes windows at all, which depends on the links between the devices.
func (l *Library) tryWindow(patience time.Duration) error {
	const smallest = 2 << 20 // what the driver maps at a time
	w, err := l.NewWindow(smallest, patience)
	if errors.Is(err, errNoWindow) {
		return fault(backend.P2PUnreported, "%s makes no window of symmetric memory: it needs peer-to-peer access between every two of the devices, and NCCL_CUMEM_ENABLE and NCCL_WIN_ENABLE not switched off", l.api.Path())
	}
	if err != nil {
		return fault(backend.InitFailed, "%w", err)
	}
	return l.FreeWindow(w)
}

// symmetricWindows is where a self-test of symmetric memory gets its buffers.
type symmetricWindows struct {
	library  *Library
	patience time.Duration
	made     []SymmetricWindow
}

func (w *symmetricWindows) alloc(bytes int64) (cuda.Pointer, error) {
	made, err := w.library.NewWindow(bytes, w.patience)
	w.made = append(w.made, made)
	return cuda.Pointer(made.Pointer), err
}

func (w *symmetricWindows) free(p cuda.Pointer) error {
	for _, made := range w.made {
		if made.Pointer == uintptr(p) {
			return w.library.FreeWindow(made)
		}
	}
	return nil
}

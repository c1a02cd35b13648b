package cuda

import (
	"runtime"
	"unsafe"

	"github.com/weir-project/weir/sdk/native/dl"
)

// Module is a CUmodule, Function a CUfunction.
type (
	Module   uintptr
	Function uintptr
)

// LoadModule loads PTX text or a cubin into the current context.
func (a *API) LoadModule(image []byte) (Module, error) {
	m := new(Module)
	ended := append(image[:len(image):len(image)], 0) // PTX is a string to the driver
	err := a.call(moduleLoadData, uintptr(unsafe.Pointer(m)), uintptr(unsafe.Pointer(unsafe.SliceData(ended))))
	return *m, err
}

// UnloadModule gives a module up.
func (a *API) UnloadModule(m Module) error { return a.call(moduleUnload, uintptr(m)) }

// Function is a kernel of a module.
func (a *API) Function(m Module, name string) (Function, error) {
	f := new(Function)
	text := append([]byte(name), 0)
	err := a.call(moduleGetFunction, uintptr(unsafe.Pointer(f)), uintptr(m), uintptr(unsafe.Pointer(unsafe.SliceData(text))))
	return *f, err
}

// Launcher launches kernels without allocating. It serves one caller at a time.
type Launcher struct {
	api  *API
	step *dl.Sequence
}

// NewLauncher is a launcher into whatever context is current at each launch.
func (a *API) NewLauncher() *Launcher {
	l := &Launcher{api: a, step: dl.NewSequence(1)}
	l.step.Step(0).Function = a.address[launchKernel]
	return l
}

// Launch starts a kernel of grid blocks of block threads in stream order. args are pointers to the arguments, which the
// driver copies before it returns; both lie on the heap.
func (l *Launcher) Launch(f Function, grid, block, sharedBytes int, s Stream, args *unsafe.Pointer) error {
	l.step.Step(0).Args = [...]uintptr{
		uintptr(f), uintptr(grid), 1, 1, uintptr(block), 1, 1, uintptr(sharedBytes), uintptr(s), uintptr(unsafe.Pointer(args)), 0, 0,
	}
	stopped := l.step.Run(0)
	runtime.KeepAlive(args)
	if stopped == 0 {
		return l.api.check(symbols[launchKernel].name, l.step.Step(0).Result)
	}
	return nil
}

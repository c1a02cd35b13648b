package exec

import (
	"crypto/sha256"
	"errors"
	"sync"

	"github.com/weir-project/weir/sdk/internal/device"
	"github.com/weir-project/weir/sdk/native/cuda"
)

// kept is what kernel plans of this process have given back: it waits for the next plan rather than be freed. The driver's
// functions that free memory or unload code wait for all that the device does, which may be a kernel that waits for a call
// that another thread of this process is about to make.
var kept = struct {
	mu      sync.Mutex
	memory  map[keptMemory][]cuda.Pointer
	words   map[cuda.Context][][]byte
	modules map[keptModule]cuda.Module // in use or not
	execs   map[cuda.Context][]cuda.GraphExec
}{
	memory: map[keptMemory][]cuda.Pointer{}, words: map[cuda.Context][][]byte{}, modules: map[keptModule]cuda.Module{},
	execs: map[cuda.Context][]cuda.GraphExec{},
}

type keptMemory struct {
	context cuda.Context
	bytes   int64
}

type keptModule struct {
	context cuda.Context
	image   [sha256.Size]byte
}

// takeMemory is device memory, whatever it holds, to be given to keepMemory.
func takeMemory(d *device.Device, bytes int64) (cuda.Pointer, error) {
	key := keptMemory{d.Context, bytes}
	kept.mu.Lock()
	if have := kept.memory[key]; len(have) > 0 {
		kept.memory[key] = have[:len(have)-1]
		kept.mu.Unlock()
		return have[len(have)-1], nil
	}
	kept.mu.Unlock()
	return d.API.Alloc(bytes)
}

func keepMemory(d *device.Device, p cuda.Pointer, bytes int64) error {
	kept.mu.Lock()
	defer kept.mu.Unlock()
	key := keptMemory{d.Context, bytes}
	kept.memory[key] = append(kept.memory[key], p)
	return nil
}

// takeWords is page-locked memory for a kernelStatus, to be given to keepWords.
func takeWords(d *device.Device) ([]byte, error) {
	kept.mu.Lock()
	if have := kept.words[d.Context]; len(have) > 0 {
		kept.words[d.Context] = have[:len(have)-1]
		kept.mu.Unlock()
		return have[len(have)-1], nil
	}
	kept.mu.Unlock()
	return d.API.AllocHost(statusBytes)
}

func keepWords(d *device.Device, words []byte) error {
	kept.mu.Lock()
	defer kept.mu.Unlock()
	kept.words[d.Context] = append(kept.words[d.Context], words)
	return nil
}

// takeExec is an instantiated graph of one kernel, to be updated before it is launched and to be given to keepExec. Making one
// may wait for all that the device does, so it is made before ranks wait for one another.
func takeExec(d *device.Device, kernel *cuda.Dispatch) (cuda.GraphExec, error) {
	kept.mu.Lock()
	if have := kept.execs[d.Context]; len(have) > 0 {
		kept.execs[d.Context] = have[:len(have)-1]
		kept.mu.Unlock()
		return have[len(have)-1], nil
	}
	kept.mu.Unlock()
	g, err := d.Record(func(s cuda.Stream) error { return d.API.LaunchKernel(kernel, s) })
	if err != nil {
		return 0, err
	}
	x, err := d.API.Instantiate(g)
	return x, errors.Join(err, d.API.DestroyGraph(g))
}

func keepExec(d *device.Device, x cuda.GraphExec) error {
	kept.mu.Lock()
	defer kept.mu.Unlock()
	kept.execs[d.Context] = append(kept.execs[d.Context], x)
	return nil
}

// module loads an image, once.
func module(d *device.Device, image []byte) (cuda.Module, error) {
	key := keptModule{d.Context, sha256.Sum256(image)}
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if m, have := kept.modules[key]; have {
		return m, nil
	}
	m, err := d.API.LoadModule(image)
	if err == nil {
		kept.modules[key] = m
	}
	return m, err
}

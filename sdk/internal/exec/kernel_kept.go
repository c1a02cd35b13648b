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
	memory shelf[keptMemory, cuda.Pointer]
	words  shelf[cuda.Context, []byte]
	execs  shelf[cuda.Context, cuda.GraphExec]

	mu      sync.Mutex
	modules map[keptModule]cuda.Module // in use or not
}{modules: map[keptModule]cuda.Module{}}

// shelf keeps things of which any with the same key will do.
type shelf[K comparable, V any] struct {
	mu   sync.Mutex
	have map[K][]V
}

func (s *shelf[K, V]) take(key K) (v V, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.have[key]); n > 0 {
		v, s.have[key] = s.have[key][n-1], s.have[key][:n-1]
		return v, true
	}
	return v, false
}

func (s *shelf[K, V]) keep(key K, v V) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.have == nil {
		s.have = map[K][]V{}
	}
	s.have[key] = append(s.have[key], v)
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
	if p, found := kept.memory.take(keptMemory{d.Context, bytes}); found {
		return p, nil
	}
	return d.API.Alloc(bytes)
}

func keepMemory(d *device.Device, p cuda.Pointer, bytes int64) error {
	kept.memory.keep(keptMemory{d.Context, bytes}, p)
	return nil
}

// takeWords is page-locked memory for a kernelStatus, to be given to keepWords.
func takeWords(d *device.Device) ([]byte, error) {
	if words, found := kept.words.take(d.Context); found {
		return words, nil
	}
	return d.API.AllocHost(statusBytes)
}

func keepWords(d *device.Device, words []byte) error {
	kept.words.keep(d.Context, words)
	return nil
}

// takeExec is an instantiated graph of one kernel, to be updated before it is launched and to be given to keepExec. Making one
// may wait for all that the device does, so it is made before ranks wait for one another.
func takeExec(d *device.Device, kernel *cuda.Dispatch) (cuda.GraphExec, error) {
	if x, found := kept.execs.take(d.Context); found {
		return x, nil
	}
	g, err := d.Record(func(s cuda.Stream) error { return d.API.LaunchKernel(kernel, s) })
	if err != nil {
		return 0, err
	}
	x, err := d.API.Instantiate(g)
	return x, errors.Join(err, d.API.DestroyGraph(g))
}

func keepExec(d *device.Device, x cuda.GraphExec) error {
	kept.execs.keep(d.Context, x)
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

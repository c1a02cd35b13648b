package workerv1

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/weir-project/weir/sdk/proto/sealed"
)

// Files is the memory before it is handed out.
type Files struct {
	Control *os.File
	Inputs  *os.File // for ranks
	ReadOK  *os.File // the same, but for the worker, who can only read it
}

// Create makes and lays out the memory. It has no name, nobody can change its size, and it is gone with its last user.
// Its pages are reserved, so that touching them later cannot fail.
func Create(s Shape) (_ *Files, _ *Memory, err error) {
	if err := s.validate(); err != nil {
		return nil, nil, err
	}
	f := &Files{}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	if f.Control, err = sealed.New("weir-worker", s.ControlBytes()); err != nil {
		return nil, nil, err
	}
	if f.Inputs, err = sealed.New("weir-worker-inputs", s.InputBytes()); err != nil {
		return nil, nil, err
	}
	if f.ReadOK, err = os.Open(fmt.Sprintf("/proc/self/fd/%d", f.Inputs.Fd())); err != nil {
		return nil, nil, fmt.Errorf("a descriptor of the inputs that only reads: %w", err)
	}
	control, err := sealed.MapAll(f.Control, unix.PROT_READ|unix.PROT_WRITE)
	if err != nil {
		return nil, nil, err
	}
	inputs, err := sealed.MapAll(f.Inputs, unix.PROT_READ)
	if err != nil {
		return nil, nil, errors.Join(err, unix.Munmap(control))
	}
	m, err := NewMemory(s, control, inputs)
	return f, m, err
}

// Close gives the descriptors up; who has mapped the memory keeps it.
func (f *Files) Close() {
	for _, file := range []**os.File{&f.Control, &f.Inputs, &f.ReadOK} {
		if *file != nil {
			_ = (*file).Close()
			*file = nil
		}
	}
}

package p2p

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/weir-project/weir/sdk/native/cuda"
)

// arm poisons the memory offered and starts the kernel that waits for a round.
func (w *worker) arm(r round) error {
	clear(w.shared)
	err := errors.Join(
		w.api.FillAsync(w.offered.at, poison, offerSize, w.stream),
		w.api.FillAsync(w.report, 0, sharedBytes, w.stream),
	)
	if err == nil {
		err = w.api.SynchronizeStream(w.stream) // nobody has been told of the memory yet
	}
	if err != nil {
		return err
	}
	args := []uint64{uint64(w.offered.at), uint64(r.Bytes / 8), r.Seed, r.Flag, looks, uint64(w.report), uint64(w.sharedDevice)}
	if r.Copy {
		return w.launch(w.check, append(args, uint64(w.offered.at+flagAt))...)
	}
	return w.launch(w.pull, args...)
}

// write writes a round into the memory taken, and returns when it has been written as far as this GPU knows.
func (w *worker) write(r round, patience time.Duration) error {
	if !r.Copy {
		if err := w.launch(w.push, uint64(w.taken.at), uint64(r.Bytes/8), r.Seed, r.Flag); err != nil {
			return err
		}
		return w.wait(patience)
	}
	data := make([]byte, r.Bytes+8)
	fill(data[:r.Bytes], r.Seed, 0)
	binary.LittleEndian.PutUint64(data[r.Bytes:], r.Flag)
	if err := w.api.ToDevice(w.source, data); err != nil {
		return err
	}
	err := errors.Join(
		w.api.CopyAsync(w.taken.at, w.source, r.Bytes, w.stream),
		w.api.CopyAsync(w.taken.at+flagAt, w.source+cuda.Pointer(r.Bytes), 8, w.stream),
	)
	if err != nil {
		return err
	}
	return w.wait(patience)
}

// endPatience is how long a kernel may take to leave when it is told to.
const endPatience = 5 * time.Second

// finish gives the waiting kernel some time after its peer has written, then ends it and looks at what has come. patience
// begins when the kernel runs, which it may not at once on a GPU that others use.
func (w *worker) finish(r round, patience time.Duration) (f found, err error) {
	for end := time.Now().Add(endPatience); w.look(beganAt) == 0 && time.Now().Before(end); {
		if done, err := w.api.StreamDone(w.stream); done || err != nil {
			break
		}
		time.Sleep(pause)
	}
	if err := w.wait(patience); errors.Is(err, errNotDone) {
		atomic.StoreUint32(w.word(stopAt), 1)
		if err := w.wait(endPatience); err != nil {
			return f, fmt.Errorf("the waiting kernel: %w", err)
		}
	} else if err != nil {
		return f, err
	}
	report, got := make([]byte, sharedBytes), make([]byte, r.Bytes)
	if err := errors.Join(w.api.ToHost(report, w.report), w.api.ToHost(got, w.offered.at)); err != nil {
		return f, err
	}
	f.Missing, f.Wrong = binary.LittleEndian.Uint32(report[missingAt:]), binary.LittleEndian.Uint32(report[wrongAt:])
	f.compare(r, got)
	return f, nil
}

// word is one of the words shared with the waiting kernel.
func (w *worker) word(at int) *uint32 { return (*uint32)(unsafe.Pointer(&w.shared[at])) }

func (w *worker) look(at int) uint32 { return atomic.LoadUint32(w.word(at)) }

const pause = 50 * time.Microsecond

var errNotDone = errors.New("not done in time")

// wait waits until the stream has no work.
func (w *worker) wait(patience time.Duration) error {
	for end := time.Now().Add(patience); ; time.Sleep(pause) {
		done, err := w.api.StreamDone(w.stream)
		if done || err != nil {
			return err
		}
		if time.Now().After(end) {
			return errNotDone
		}
	}
}

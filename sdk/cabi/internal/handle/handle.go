// Package handle gives Go values numbers that C code may keep, lose and invent: a number that stands for nothing is an
// error, never a wrong value.
package handle

import (
	"errors"
	"sync"
	"sync/atomic"
)

// Max is how many handles may be open at once.
const Max = 1 << 16

// ErrNone is the error of a number that stands for nothing, or no longer.
var ErrNone = errors.New("the handle is not open")

// ErrFull is the error of a table with Max open handles.
var ErrFull = errors.New("too many handles are open")

// Handle is a number that stands for a value. 0 is never one. A number is not given twice in a process's life.
type Handle uint64

// entry is never changed, so that a reader has a number and its value together.
type entry[T any] struct {
	handle Handle
	value  T
}

// Table is a set of values with their numbers. Its zero value is empty. All methods may be called at once; Get takes no
// lock, since it is on the path of every call.
type Table[T any] struct {
	slots [Max]atomic.Pointer[entry[T]]

	mu   sync.Mutex
	last Handle // given; its lower bits are the slot
	open int
}

// Put gives a value a number.
func (t *Table[T]) Put(value T) (Handle, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == Max {
		return 0, ErrFull
	}
	for {
		t.last++
		if slot := &t.slots[t.last%Max]; slot.Load() == nil {
			slot.Store(&entry[T]{t.last, value})
			t.open++
			return t.last, nil
		}
	}
}

// Get is the value of a number.
func (t *Table[T]) Get(h Handle) (value T, err error) {
	e := t.slots[h%Max].Load()
	if e == nil || e.handle != h {
		return value, ErrNone
	}
	return e.value, nil
}

// Remove has a number stand for nothing any more.
func (t *Table[T]) Remove(h Handle) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	slot := &t.slots[h%Max]
	if e := slot.Load(); e == nil || e.handle != h {
		return ErrNone
	}
	slot.Store(nil)
	t.open--
	return nil
}

// All are the values that are as asked, by their numbers.
func (t *Table[T]) All(is func(T) bool) map[Handle]T {
	all := map[Handle]T{}
	for i := range t.slots {
		if e := t.slots[i].Load(); e != nil && is(e.value) {
			all[e.handle] = e.value
		}
	}
	return all
}

package device

import (
	"errors"
	"fmt"

	"github.com/weir-project/weir/sdk/native/cuda"
)

// Checker refuses what a call on the device may not be given. It asks the driver about a stream or an allocation that it
// has not met, so it costs nothing for the usual call; one that was freed since is not noticed. It serves one caller at a
// time.
type Checker struct {
	device *Device
	stream cuda.Stream // known to be of the device's context
	known  bool        // stream is
	spans  [8]span     // allocations known to be the device's
	next   int         // which of them to forget next
}

type span struct{ start, end uintptr }

// unfit is what a Checker finds, and no failure of the driver's.
type unfit string

func (u unfit) Error() string { return string(u) }

func refused(format string, args ...any) error { return unfit(fmt.Sprintf(format, args...)) }

// Unfit reports whether a Checker's error is about what it was given, and not about the driver that it asked.
func Unfit(err error) bool {
	var u unfit
	return errors.As(err, &u)
}

// NewChecker is a checker that has met nothing.
func NewChecker(d *Device) *Checker { return &Checker{device: d} }

// Stream refuses a stream of another context.
func (c *Checker) Stream(s cuda.Stream) error {
	if c.known && s == c.stream {
		return nil
	}
	d := c.device
	var of cuda.Context
	err := d.Do(func() (err error) { of, err = d.API.StreamContext(s); return err })
	if err != nil {
		return fmt.Errorf("the stream: %w", err)
	}
	if of != d.Context {
		return refused("the stream belongs to another context than device %d's primary one, which this rank joined with", d.Info.Index)
	}
	c.stream, c.known = s, true
	return nil
}

// Buffer refuses memory that is not the device's or ends before the buffer does.
func (c *Checker) Buffer(name string, p uintptr, bytes int64) error {
	for _, s := range &c.spans {
		if p >= s.start && p < s.end && uintptr(bytes) <= s.end-p {
			return nil
		}
	}
	d := c.device
	var a cuda.Allocation
	err := d.Do(func() (err error) { a, err = d.API.Allocation(cuda.Pointer(p)); return err })
	switch {
	case cuda.Is(err, cuda.InvalidValue):
		return refused("%s (%#x) is not device memory: CUDA does not know the address", name, p)
	case err != nil:
		return fmt.Errorf("%s: %w", name, err)
	case a.Host:
		return refused("%s (%#x) is not device memory: it is page-locked host memory", name, p)
	case a.Device != d.Info.Index:
		return refused("%s (%#x) is memory of device %d, this rank joined with device %d", name, p, a.Device, d.Info.Index)
	}
	end := uintptr(a.Start) + uintptr(a.Bytes)
	if a.Bytes > 0 && uintptr(bytes) > end-p {
		return refused("%s (%#x) has %d bytes left in its allocation, the call needs %d", name, p, end-p, bytes)
	}
	if a.Bytes > 0 {
		c.spans[c.next] = span{uintptr(a.Start), end}
		c.next = (c.next + 1) % len(c.spans)
	}
	return nil
}

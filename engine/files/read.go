package files

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// ErrTooLarge is the error for a file that goes on after all that is read of one.
var ErrTooLarge = errors.New("too large")

// Read is what a file holds, if that is no more than most bytes, while ctx is not done.
func Read(ctx context.Context, path string, most int64) (text []byte, err error) {
	err = With(ctx, path, most, func(r io.Reader) (err error) {
		text, err = io.ReadAll(r)
		return err
	})
	return text, err
}

// With opens a file and has it read, up to most bytes: the next one is ErrTooLarge to the reader. When ctx is done With returns its cause
// at once, and what use still does is of no account.
func With(ctx context.Context, path string, most int64, use func(io.Reader) error) error {
	return Wait(ctx, func() error {
		f, err := Open(path) // may hang too, where a file system does
		if err != nil {
			return err
		}
		defer f.Close()
		return use(Bounded(ctx, f, most))
	})
}

// Wait is what do returns, or ctx's cause if that comes first.
func Wait(ctx context.Context, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Bounded reads up to most bytes of r, while ctx is not done.
func Bounded(ctx context.Context, r io.Reader, most int64) io.Reader {
	return &bounded{ctx: ctx, from: r, left: most, most: most}
}

type bounded struct {
	ctx        context.Context
	from       io.Reader
	left, most int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.ctx.Err() != nil {
		return 0, context.Cause(b.ctx)
	}
	if len(p) == 0 {
		return 0, nil
	}
	if b.left == 0 { // the end, or a byte too many
		n, err := b.from.Read(p[:1])
		if n > 0 {
			return 0, fmt.Errorf("%w: more than the %d bytes that are read", ErrTooLarge, b.most)
		}
		return 0, err
	}
	n, err := b.from.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

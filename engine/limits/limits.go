// Package limits says which limit of the system stands in the way, and finds out before memory is taken that there is none.
package limits

import (
	"errors"
	"fmt"
	"syscall"
)

// Exhausted reports whether an error is a resource that has run out and may be there again later.
func Exhausted(err error) bool { return words(err) != "" }

// Explain adds to an error of a system call which limit it comes from and what raises it. Other errors stay as they are.
func Explain(err error) error {
	if w := words(err); w != "" {
		return fmt.Errorf("%w: %s", err, w)
	}
	return err
}

func words(err error) string {
	switch {
	case errors.Is(err, syscall.EMFILE):
		return "weir may open no more files at a time; raise the limit (ulimit -n)"
	case errors.Is(err, syscall.ENFILE):
		return "all programs together may open no more files (sysctl fs.file-max)"
	case errors.Is(err, syscall.EAGAIN):
		return "no more processes may be started; raise the limit (ulimit -u, or the container's number of processes)"
	case errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.ENOSPC):
		return "there is no memory left (ulimit -v, the container's limit, or the machine's)"
	}
	return ""
}

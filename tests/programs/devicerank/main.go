// Command devicerank is a rank that all-reduces on its device without end and, as rank 1, does what its first argument says
// in the middle: "kill" ends its process at once, "exit" returns from main without leaving the group, "leave" leaves the
// group as it should, "stuck" does not come out of the library's call until the group has failed. Its other ranks say how their
// group ended.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/native/cuda"
	"github.com/weir-project/weir/sdk/rank"
	"github.com/weir-project/weir/tests/await"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "devicerank: %s\n", err)
		os.Exit(1)
	}
}

// calls is how many a rank makes before something happens.
const calls = 200

func run(fault string) error {
	runtime.LockOSThread()
	s, err := rank.Join(context.Background(), rank.Options{Device: rank.DeviceAuto})
	if err != nil {
		return err
	}
	g := s.World()
	driver, err := cuda.Open()
	if err != nil {
		return err
	}
	api, err := driver.Bind()
	if err != nil {
		return err
	}
	c, err := api.Retain(g.Facts().Ranks[g.Rank()].Device.Index)
	if err != nil {
		return err
	}
	if err := api.SetCurrent(c); err != nil {
		return err
	}
	stream, err := api.NewStream()
	if err != nil {
		return err
	}
	op := collective.Max
	if len(os.Args) > 2 { // "sum": kernels serve nothing else
		op = collective.Sum
	}
	const n = 1000
	p, err := api.Alloc(4 * n)
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		if i == calls && g.Rank() == 1 {
			switch fault {
			case "kill":
				return syscall.Kill(os.Getpid(), syscall.SIGKILL)
			case "exit":
				return nil
			case "leave":
				return errors.Join(api.SynchronizeStream(stream), s.Close())
			case "stuck":
				if err := os.Setenv("FAKE_NCCL_HANG", "ncclAllReduce:1"); err != nil {
					return err
				}
				go func() {
					for g.Err() == nil {
						time.Sleep(time.Millisecond)
					}
					os.Exit(0)
				}()
			}
		}
		if err := rank.AllReduceDevice(g, uintptr(p), uintptr(p), n, collective.Float32, op, uintptr(stream)); err != nil {
			break
		}
		if i == calls && (fault == "leave" || fault == "stuck") {
			break
		}
		if i%16 == 0 {
			if err := api.SynchronizeStream(stream); err != nil {
				fmt.Fprintf(os.Stderr, "rank %d: %v\n", g.Rank(), err)
				break
			}
		}
	}
	await.Poll(await.For(await.Plenty), func() bool { return g.Err() != nil })
	fmt.Fprintf(os.Stderr, "rank %d: %v\n", g.Rank(), g.Err())
	// The stream ends too, and the device is there for others.
	err = errors.Join(api.SynchronizeStream(stream), api.Fill(p, 0, 4*n), api.Free(p))
	if err != nil {
		return fmt.Errorf("the device is not usable any more: %w", err)
	}
	fmt.Fprintf(os.Stderr, "rank %d: %v; the device is usable\n", g.Rank(), g.Err())
	return g.Err()
}

package conformance

import (
	"context"
	"net"
	"time"

	"github.com/weir-project/weir/sdk/proto/workerv1"
	"github.com/weir-project/weir/tests/await"
)

// careless is a worker that completes every tile once all ranks have come, whatever they say; deaf does not even do that.
func careless(deaf bool) *fakeWorker {
	f := newFakeWorker(nil)
	f.attach = func(ctx context.Context, _, socket string) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
		if err != nil {
			return err
		}
		m, err := workerv1.Accept(conn.(*net.UnixConn), await.By(await.Plenty))
		if err == nil {
			err = workerv1.Ready(conn.(*net.UnixConn), nil)
		}
		if err != nil {
			return err
		}
		ended := make(chan struct{})
		go func() { workerv1.Ended(conn.(*net.UnixConn)); close(ended) }()
		go func() {
			defer m.Unmap()
			defer conn.Close()
			for tile := uint64(1); ; {
				select {
				case <-ended:
					return
				case <-time.After(await.Lapse(100 * time.Microsecond)):
				}
				if !deaf && m.Stopped() {
					return
				}
				come := true
				for rank := range m.World {
					come = come && m.Arrived(rank, tile)
				}
				if come && !deaf {
					m.Complete(tile)
					tile++
				}
			}
		}()
		return nil
	}
	return f
}

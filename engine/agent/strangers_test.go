package agent

import (
	"encoding/binary"
	"net"
	"runtime"
	"testing"

	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// TestStrangersCostLittle has 300 processes send as much as they can before they join, or as much as they may: the agent keeps little of
// it, and serves a job meanwhile.
func TestStrangersCostLittle(t *testing.T) {
	const strangers, more = 300, 4 << 20
	a := startAgent(t, 2, nil)
	defer a.Close()
	flood := make([]byte, 4+more)
	binary.LittleEndian.PutUint32(flood, more)
	some := make([]byte, 4+rankv1.MaxJoin/2)
	binary.LittleEndian.PutUint32(some, rankv1.MaxJoin)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var silent []*net.UnixConn
	for range strangers {
		_, _ = dialSocket(t, a).Write(flood) // which the agent does not read to its end
		s := dialSocket(t, a)
		if _, err := s.Write(some); err != nil {
			t.Fatal(err)
		}
		silent = append(silent, s)
	}
	joined(t, a)
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > strangers*(1<<20) {
		t.Errorf("%d strangers of each kind cost %d MiB", strangers, used>>20)
	}
	runtime.KeepAlive(silent)
}

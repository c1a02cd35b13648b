package exec

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/tests/await"
)

// TestConnectRefuses are offers of the ranks with which no communicator can be made.
func TestConnectRefuses(t *testing.T) {
	id := make([]byte, 128)
	for name, c := range map[string]struct {
		offers []offer
		code   backend.Code
		rank   int
		words  string
	}{
		"a mixture":       {[]offer{{"/a", "2.28.9", id}, {"/a", "2.28.9", nil}, {"/b", "2.27.3", nil}}, backend.Version, 2, "/b is version 2.27.3, rank 0 has 2.28.9 at /a"},
		"no id":           {[]offer{{"/a", "2.28.9", nil}, {"/a", "2.28.9", nil}, {"/a", "2.28.9", nil}}, backend.InitFailed, backend.AnyRank, "rank 0 sent no unique id"},
		"too short an id": {[]offer{{"/a", "2.28.9", id[1:]}, {"/a", "2.28.9", nil}, {"/a", "2.28.9", nil}}, backend.InitFailed, backend.AnyRank, "rank 0 sent no unique id"},
		"too few":         {[]offer{{"/a", "2.28.9", id}}, backend.InitFailed, backend.AnyRank, "rank 0 sent no unique id"},
	} {
		var texts [][]byte
		for _, o := range c.offers {
			text, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, text)
		}
		err := (&Library{world: 3}).Connect(texts, nil, await.For(time.Second))
		var f *backend.Fault
		if !errors.As(err, &f) || f.Code != c.code || f.Rank != c.rank || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (&Library{world: 1}).Connect([][]byte{[]byte("{")}, nil, await.For(time.Second)); err == nil || !strings.Contains(err.Error(), "rank 0 offers no library") {
		t.Errorf("nonsense: %v", err)
	}
}

// TestNearly is how far an average may be off, and that nothing else may.
func TestNearly(t *testing.T) {
	for _, op := range collective.Ops() {
		for _, dt := range collective.DataTypes() {
			near := nearly(collective.Class{DataType: dt, Op: op}, 3)
			if (near != nil) != (op == collective.Avg && dt.Float()) {
				t.Errorf("%s %s: tolerance or not", dt, op)
			}
			if near == nil {
				continue
			}
			third := float64(float32(1) / 3)
			if dt == collective.Float32 && !near(third*100+third*2, 34) {
				t.Errorf("%s: rounding is not allowed", dt)
			}
			if near(40, 34) || near(math.NaN(), 34) {
				t.Errorf("%s: a wrong average is allowed", dt)
			}
		}
	}
}

// TestGivenUp gives up what does not end.
func TestGivenUp(t *testing.T) {
	if err := inTime(await.For(await.Plenty), func() error { return errLate }); err != errLate {
		t.Error(err)
	}
	stop := make(chan struct{})
	defer close(stop)
	if err := inTime(await.Lapse(time.Millisecond), func() error { <-stop; return nil }); err != errLate {
		t.Errorf("error %v", err)
	}
}

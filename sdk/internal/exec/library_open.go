package exec

import (
	"encoding/json"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/internal/device"
	"github.com/weir-project/weir/sdk/native/dl"
	"github.com/weir-project/weir/sdk/native/nccl"
)

// offer is what each rank tells the others of its library before they connect.
type offer struct {
	Path    string
	Version string
	ID      []byte // of the communicator; rank 0's
}

// idPatience bounds the making of a unique id, for which the library looks at the network.
const idPatience = 15 * time.Second

// fault is a failure with the code under which it is recorded as a decline.
func fault(code backend.Code, format string, args ...any) error {
	return &backend.Fault{Code: code, Rank: backend.AnyRank, Err: fmt.Errorf(format, args...)}
}

// OpenLibrary loads the plan's library, or takes the copy that is in the process already. It returns what Connect of every
// rank needs.
func OpenLibrary(p *plan.Library, d *device.Device, g collective.Group, rank int, busy func() bool) (*Library, []byte, error) {
	path, err := choose(p)
	if err != nil {
		return nil, nil, err
	}
	lib, err := dl.Open(path) // stays open: some libraries do not survive being unloaded
	if err != nil {
		return nil, nil, fault(backend.LibMissing, "%w", err)
	}
	api, err := nccl.Bind(lib)
	if err != nil {
		return nil, nil, fault(backend.SymbolMissing, "%w", err)
	}
	version, err := nccl.Version(lib)
	if err != nil {
		return nil, nil, fault(backend.InitFailed, "%s: %w", path, err)
	}
	if version != p.Version {
		return nil, nil, fault(backend.Version, "%s is version %s, the plan is for %s", path, version, p.Version)
	}
	l := &Library{api: api, device: d, rank: rank, world: g.WorldSize(), lane: d.API.NewLane(d.Context), ended: make(chan struct{}), busy: busy, symmetric: p.Variant == "nccl-symm"}
	if err := arrange(p, g, rank); err != nil {
		return nil, nil, err
	}
	o := offer{Path: api.Path(), Version: version}
	if rank == 0 {
		made := make(chan nccl.UniqueID, 1)
		err := inTime(idPatience, func() error {
			return d.Do(func() error {
				id, err := api.UniqueID()
				made <- id
				return err
			})
		})
		if err == errLate {
			return nil, nil, fault(backend.Timeout, "%s did not make a unique id within %s", path, idPatience)
		}
		if err != nil {
			return nil, nil, fault(backend.InitFailed, "%w", err)
		}
		id := <-made
		o.ID = id[:]
	}
	text, err := json.Marshal(o)
	return l, text, err
}

// choose prefers the copy of NCCL that the process has loaded, if it is of the plan's version. Two copies in one process
// do not get on.
func choose(p *plan.Library) (string, error) {
	if p.Variant != "nccl" && p.Variant != "nccl-symm" {
		return p.Path, nil
	}
	loaded, err := nccl.Loaded()
	if err != nil {
		return "", fault(backend.InitFailed, "%w", err)
	}
	loaded = lo.UniqBy(loaded, func(l collective.Library) any { return fileOf(l.Path) })
	switch len(loaded) {
	case 0:
		return p.Path, nil
	case 1:
		if loaded[0].Version != p.Version && fileOf(loaded[0].Path) != fileOf(p.Path) {
			return "", fault(backend.Version, "this process has loaded %s, which is %s; the plan is for %s at %s, since it was not loaded when the process joined", loaded[0].Path,
				lo.CoalesceOrEmpty(loaded[0].Version, "of an unknown version"), p.Version, p.Path)
		}
		return loaded[0].Path, nil
	}
	return "", fault(backend.Version, "this process has loaded two copies of NCCL: %s %s and %s %s", loaded[0].Path, loaded[0].Version, loaded[1].Path, loaded[1].Version)
}

// fileOf tells whether two paths are one file; the path itself if it cannot be looked at.
func fileOf(path string) any {
	info, err := os.Stat(path)
	if err != nil {
		return path
	}
	at, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return path
	}
	return [2]uint64{at.Dev, at.Ino}
}

// Connect makes the communicator. offers are by rank; there are no files. When the library does not come back in time it is left behind, with
// the thread that is in it.
func (l *Library) Connect(offers [][]byte, _ []*os.File, deadline time.Duration) error {
	all := make([]offer, len(offers))
	for r, text := range offers {
		if err := json.Unmarshal(text, &all[r]); err != nil {
			return fault(backend.InitFailed, "rank %d offers no library: %w", r, err)
		}
		if all[r].Version != all[0].Version {
			return &backend.Fault{Code: backend.Version, Rank: r, Err: fmt.Errorf("%s is version %s, rank 0 has %s at %s", all[r].Path, all[r].Version, all[0].Version, all[0].Path)}
		}
	}
	var id nccl.UniqueID
	if len(all) != l.world || copy(id[:], all[0].ID) != len(id) {
		return fault(backend.InitFailed, "rank 0 sent no unique id")
	}
	made := make(chan nccl.Comm, 1)
	err := inTime(deadline, func() error {
		return l.device.Do(func() error {
			c, err := l.api.Init(l.world, l.rank, id)
			made <- c
			return err
		})
	})
	if err == errLate {
		l.over.Store(true)
		return fault(backend.Timeout, "%s did not make its communicator within %s", l.api.Path(), deadline.Round(time.Millisecond))
	}
	if err != nil {
		l.over.Store(true)
		return fault(backend.InitFailed, "%w", err)
	}
	l.comm = <-made
	l.ready.Store(true)
	if l.symmetric {
		return l.tryWindow(deadline)
	}
	return nil
}

var errLate = fmt.Errorf("not done in time")

// inTime runs f on a goroutine of its own and gives it up when it takes too long.
func inTime(limit time.Duration, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return errLate
	}
}

// SelfTest makes all-reduces whose result is known. All ranks run it at the same time. stopped is asked while it waits.
func (l *Library) SelfTest(class collective.Class, ranges []backend.Range, deadline time.Duration, stopped func() error) error {
	t := &device.Trial{Stopped: stopped}
	if l.symmetric {
		w := &symmetricWindows{library: l, patience: deadline}
		t.Alloc, t.Free = w.alloc, w.free
	}
	return selfTestPlan(l, t, l.ended, trialOf{device: l.device, rank: l.rank, world: l.world, class: class, ranges: ranges, deadline: deadline, what: l.api.Path()})
}

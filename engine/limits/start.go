package limits

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// What a process in Go takes, measured: less ends it, by Go's runtime and with a dump of its registers.
const (
	fewThreads  = 5       // with which one may just come up
	manyThreads = 6       // and one for each processor: what one has that works
	littleSpace = 7 << 28 // addresses, 1.75 GiB, with which a plugin and the engine may just come up
	muchSpace   = 9 << 28 // 2.25 GiB, and coreSpace for each processor, whose threads have stacks and heaps
	coreSpace   = 160 << 20
	unlimited   = math.MaxUint64 // what the kernel has for no limit
)

// Start says why processes cannot be started for want of threads or addresses: in an error if they surely fail, in a warning if they
// may. Go's runtime would say it with a dump of registers. weir starts one process and so many plugins and ranks.
func Start(plugins, ranks int) (warning string, err error) {
	a := given()
	if a.threads != unlimited {
		a.used = threadsOf(os.DirFS("/"), os.Getuid())
	}
	return start(a, plugins, ranks)
}

// tight is a limit on threads so low that it is looked at before this process needs more.
const tight = 256

// StartAtAll is Start for the first moment of a command, of which nothing more is known: with one plugin, and only errors.
func StartAtAll() error {
	a := given()
	if a.threads > tight {
		a.threads = unlimited // what is in use is not looked for twice
	} else {
		a.used = threadsOf(os.DirFS("/"), os.Getuid())
	}
	_, err := start(a, 1, 0)
	return err
}

// allowance is what the limits leave to this process and its children.
type allowance struct {
	threads, used uint64 // of the user; threads is unlimited for root
	space         uint64 // addresses of a process
	cores         int
}

// given is what the limits say; who uses it is not looked at.
func given() allowance {
	a := allowance{threads: unlimited, space: unlimited, cores: runtime.GOMAXPROCS(0)}
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_AS, &l) == nil {
		a.space = l.Cur
	}
	if os.Getuid() != 0 && unix.Getrlimit(unix.RLIMIT_NPROC, &l) == nil && l.Cur != unlimited {
		a.threads = l.Cur
	}
	return a
}

func start(a allowance, plugins, ranks int) (warning string, err error) {
	cores, others := uint64(a.cores), uint64(plugins+1) // one cleans up behind the engine
	few, many := others*fewThreads+uint64(ranks), (others+1+uint64(ranks))*(manyThreads+cores)
	left := a.threads - min(a.used, a.threads)
	threads := func(least uint64) string {
		return fmt.Sprintf("this user may have %d processes and threads and has %d; the engine and what it starts take some %d more: "+
			"raise the limit (ulimit -u, or the container's number of processes)", a.threads, a.used, least)
	}
	space := func(least uint64) string {
		return fmt.Sprintf("a process may have %d MiB of addresses; the engine and each plugin take some %d MiB, most of which is never memory: "+
			"raise the limit (ulimit -v)", a.space>>20, least>>20)
	}
	enough := muchSpace + cores*coreSpace
	switch {
	case a.space < littleSpace:
		return "", errors.New(space(enough))
	case left < few:
		return "", errors.New(threads(many))
	case a.space < enough:
		return space(enough), nil
	case left < many:
		return threads(many), nil
	}
	return "", nil
}

// threadsOf counts the threads of a user that can be seen.
func threadsOf(root fs.FS, uid int) (n uint64) {
	processes, _ := fs.Glob(root, "proc/[0-9]*/status")
	for _, path := range processes {
		text, err := fs.ReadFile(root, path)
		if err != nil {
			continue // it has ended
		}
		mine := false
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			switch {
			case len(f) < 2:
			case f[0] == "Uid:":
				mine = f[1] == strconv.Itoa(uid)
			case f[0] == "Threads:" && mine:
				threads, _ := strconv.ParseUint(f[1], 10, 64)
				n += threads
			}
		}
	}
	return n
}

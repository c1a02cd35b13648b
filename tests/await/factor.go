package await

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Variable names the environment variable with a factor for all deadlines of tests, for a machine that is slow in a way that cannot
// be seen from here: an emulated one, or one whose processors others use too.
const Variable = "WEIR_TEST_PATIENCE"

// factor is how much longer than with the machine to itself a test waits here and now: the user's factor, the race detector's and the
// load's.
func factor() float64 { return given() * raced * loadNow() }

var given = sync.OnceValue(func() float64 {
	f, err := parse(os.Getenv(Variable))
	if err != nil {
		panic(err)
	}
	return f
})

// parse reads the variable's value.
func parse(text string) (float64, error) {
	if text == "" {
		return 1, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(f >= 1 && f <= 1000) {
		return 0, fmt.Errorf("%s is %q; it is a factor for the deadlines of tests, from 1 to 1000", Variable, text)
	}
	return f, nil
}

// most bounds what load can do: with more of it a test that fails would take too long to say so.
const most = 8

// load is how many processes there are for each processor, from what /proc/loadavg says, but not less than 1: the average of a minute, or
// those that want to run at this moment, whichever are more.
func load(text string, processors int) float64 {
	fields := strings.Fields(text)
	if len(fields) < 4 {
		return 1
	}
	average, _ := strconv.ParseFloat(fields[0], 64)
	running, _, _ := strings.Cut(fields[3], "/")
	now, _ := strconv.ParseFloat(running, 64)
	return min(max(average, now, float64(processors))/float64(processors), most)
}

var last struct {
	mu   sync.Mutex
	at   time.Time
	load float64
}

// loadNow is the load of this machine; 1 where it cannot be known.
func loadNow() float64 {
	const fresh = 100 * time.Millisecond
	last.mu.Lock()
	defer last.mu.Unlock()
	if now := time.Now(); last.load == 0 || now.Sub(last.at).Abs() > fresh {
		text, _ := os.ReadFile("/proc/loadavg")
		last.at, last.load = now, load(string(text), runtime.NumCPU())
	}
	return last.load
}

package exec

import "time"

// Waited counts how long something has been waited for, from look to look. Of the time between two looks no more than longestGap
// counts: in a longer one this process was stopped (a job in the background, a container that was frozen), its peers perhaps with
// it, so nobody could come.
type Waited struct {
	total time.Duration
	last  time.Time
}

const longestGap = time.Second

// Until counts up to a look now and returns what has been waited. The first look begins.
func (w *Waited) Until(now time.Time) time.Duration {
	if !w.last.IsZero() {
		w.total += min(now.Sub(w.last), longestGap)
	}
	w.last = now
	return w.total
}

package rank

import "fmt"

// Abort makes the group fail on every rank, with a reason: calls that wait return, and what waits on the device leaves, so that
// streams come to an end. The buffers of such calls are undefined. It may be called while a call is in progress, and
// waits for nobody; Close is still to be called. On a closed group it does nothing.
func (g *Group) Abort(reason string) {
	_ = g.broken(0, fmt.Errorf("rank %d aborted it: %s", g.rank, reason))
}

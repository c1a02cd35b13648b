package foreign

import (
	"regexp"

	"github.com/weir-project/weir/core/topology"
)

var numbered = regexp.MustCompile(`\b[GN]PU ?(\d{3,6})\b`)

// capped notes that a machine has more GPUs than are read.
func (r *Reading) capped() {
	r.Complete, r.more, r.Graph.Complete = Cut, true, topology.NotKnown
	r.warn("the text shows more than %d GPUs, and only the first %d are read: give the matrix of one machine", maxDevices, maxDevices)
}

// checkCap looks for GPUs beyond those that are read.
func checkCap(src source, readings []Reading) {
	for _, m := range numbered.FindAllSubmatch(src.text, -1) {
		if n, ok := number(string(m[1])); !ok || n < maxDevices {
			continue
		}
		for i := range readings {
			if len(readings[i].Graph.Devices) >= maxDevices {
				readings[i].capped()
			}
		}
		return
	}
}

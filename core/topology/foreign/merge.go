package foreign

import (
	"github.com/weir-project/weir/core/topology"
)

// merge puts what matrices and XML say together. The XML counts GPUs as CUDA does and a matrix as nvidia-smi does, so
// that of two descriptions of one machine only what holds for all GPUs can be carried over.
func merge(matrices, xml []Reading) []Reading {
	if len(matrices) != 1 || len(xml) != 1 || len(matrices[0].Graph.Devices) != len(xml[0].Graph.Devices) {
		return append(matrices, xml...)
	}
	r, x := matrices[0], xml[0]
	r.Formats = append(r.Formats, x.Formats...)
	r.Warnings = append(r.Warnings, x.Warnings...)
	if m, n := r.FullNVLink(), x.FullNVLink(); m != topology.NotKnown && n != topology.NotKnown && m != n {
		r.warn("the matrix and the XML contradict each other: full NVLink is %s by the one, %s by the other", m, n)
	}
	for i := range r.Graph.Devices {
		if x.Graph.Devices[i].Capability != x.Graph.Devices[0].Capability {
			return []Reading{r}
		}
	}
	for i := range r.Graph.Devices {
		r.Graph.Devices[i].Capability = x.Graph.Devices[0].Capability
	}
	return []Reading{r}
}

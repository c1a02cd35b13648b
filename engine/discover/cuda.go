package discover

import (
	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/sdk/native/cuda"
)

// askCUDA asks the CUDA driver, which knows the devices that CUDA_VISIBLE_DEVICES leaves, in its own order, and which of
// them reach each other; not over what.
func askCUDA(name string, _ Machine) (view, error) {
	d, err := cuda.Open(name)
	if err != nil {
		return view{}, err
	}
	if err := d.Init(); err != nil {
		return view{}, err
	}
	v := view{notes: []string{"the GPUs are as the CUDA driver has them: it does not tell links, and numbers the GPUs in its own order"}}
	if v.devices, err = d.Devices(); err != nil {
		return view{}, err
	}
	for i := range v.devices {
		v.devices[i].PCIBusID = kernelBusID(v.devices[i].PCIBusID)
	}
	if v.peers, err = d.Peers(); err != nil {
		v.notes = append(v.notes, "peer-to-peer access: unknown: "+oneLine(err))
	}
	v.links = matrixOf(len(v.devices), func(int, int) topology.Link { return topology.Link{} })
	return v, nil
}

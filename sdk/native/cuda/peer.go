package cuda

import (
	"github.com/weir-project/weir/core/topology"
)

// accessSupported is CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED.
const accessSupported = 2

// Peers are what the driver says of every two of the devices that Devices lists: Peers[a][b] is a's access to b. Init
// must have succeeded.
func (d *Driver) Peers() ([][]topology.Peer, error) {
	var count int32
	if err := d.check("cuDeviceGetCount", d.deviceGetCount(&count)); err != nil {
		return nil, err
	}
	var attribute func(value *int32, attribute, from, to int32) int32
	if err := d.lib.Bind(&attribute, "cuDeviceGetP2PAttribute"); err != nil {
		return nil, err
	}
	handles := make([]int32, count)
	for i := range handles {
		if err := d.check("cuDeviceGet", d.deviceGet(&handles[i], int32(i))); err != nil {
			return nil, err
		}
	}
	peers := make([][]topology.Peer, count)
	for a := range peers {
		peers[a] = make([]topology.Peer, count)
		for b := range peers {
			if a == b {
				continue
			}
			var value int32
			if err := d.check("cuDeviceGetP2PAttribute", attribute(&value, accessSupported, handles[a], handles[b])); err != nil {
				return nil, err
			}
			peers[a][b].Any = topology.StatusNS
			if value != 0 {
				peers[a][b].Any = topology.StatusOK
			}
		}
	}
	return peers, nil
}

package foreign

import "strconv"

const migNote = "MIG is on: a part of a divided GPU has no NVLink and no peer-to-peer access, whatever the matrix shows for the whole GPU"

// info reads the lines on single GPUs.
func (b *builder) info(in *info, k kind) {
	known := len(b.labels) > 0
	uuids := false
	for _, g := range in.gpus {
		uuids = uuids || g.uuid != ""
	}
	if k == namesKind && !known && !uuids {
		return // no more than a list of names
	}
	for _, g := range in.gpus {
		b.gpu(g, k, known)
	}
	switch {
	case k == statusKind:
		b.format(NVLinkS)
	case k == numaKind:
		b.format(ROCmSMI)
	case uuids:
		b.format(ListGPUs)
	}
	if in.mig {
		b.warn(migNote)
	}
}

func (b *builder) gpu(g gpuInfo, k kind, known bool) {
	i := b.device(label{kind: gpuLabel, n: g.index, name: "GPU" + strconv.Itoa(g.index)}, known)
	if i < 0 {
		if k != namesKind {
			b.warn("GPU %d is listed, but the matrix does not have it: they are of different machines, or of other visible devices", g.index)
		}
		return
	}
	d := &b.Graph.Devices[i]
	if g.name != "" {
		d.Name = g.name
	}
	if g.uuid != "" {
		d.UUID = g.uuid
	}
	if g.numa != "" {
		d.NUMA = g.numa
	}
	if !g.told {
		return
	}
	for len(b.NVLinks) < len(b.Graph.Devices) {
		b.NVLinks = append(b.NVLinks, -1)
	}
	b.NVLinks[i] = g.up
}

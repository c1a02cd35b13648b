package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/diagnose"
	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/engine/agent"
)

// complete works out the group, once the machine is known.
func (s *subject) complete() error {
	class, err := s.classOf(!s.live() || len(s.machine.Devices) > 0 || s.asksOfGPUs())
	if err != nil {
		return err
	}
	s.class = class
	if err := s.choose(); err != nil {
		return err
	}
	if err := s.checkSize(); err != nil {
		return err
	}
	s.machine.Devices = slices.Clone(s.machine.Devices)
	for i := range s.machine.Devices {
		s.identify(&s.machine.Devices[i])
	}
	if s.question.hosts > 1 {
		s.foreign = true
	}
	if s.class.Memory == collective.Host || len(s.machine.Devices) == 0 {
		return s.hostGroup()
	}
	return s.gpuGroup()
}

// identify fills in what a device's name, or the command line, says of it.
func (s *subject) identify(d *topology.Device) {
	if c := s.question.capability; c != "" {
		s.foreign, d.Capability = true, c
	}
	d.Capability = cmp.Or(d.Capability, topology.CapabilityOf(d.Name))
	d.Vendor = cmp.Or(d.Vendor, topology.VendorOf(d.Name))
	if d.Vendor == "" && d.Capability != "" {
		d.Vendor = lo.Ternary(strings.HasPrefix(d.Capability, "gfx"), "amd", "nvidia")
	}
}

func (s *subject) asksOfGPUs() bool {
	q := s.question
	return q.capability != "" || q.p2p != "" || q.multicast != "" || q.devices != "" || q.captured
}

// choose finds the group's devices in the machine.
func (s *subject) choose() error {
	q, n := s.question, len(s.machine.Devices)
	if s.devices != nil {
		for _, d := range s.devices {
			i := slices.IndexFunc(s.machine.Devices, func(x topology.Device) bool { return x.Index == d })
			if i < 0 {
				return fmt.Errorf("--devices: there is no GPU%d in the topology; it has %s", d, numbers(s.machine.Devices))
			}
			s.positions = append(s.positions, i)
		}
		if q.ranks != 0 && q.ranks != len(s.devices)*q.hosts {
			return fmt.Errorf("--ranks %d and %d devices on %d hosts do not go together; leave --ranks out", q.ranks, len(s.devices), q.hosts)
		}
		return nil
	}
	per := n
	if q.ranks != 0 && n > 0 {
		if q.ranks%q.hosts != 0 {
			return fmt.Errorf("--ranks %d cannot be divided evenly over %d hosts", q.ranks, q.hosts)
		}
		per = q.ranks / q.hosts
		if per > n && s.live() && s.wishes.ShareDevices { // as ranks that join with the device "auto" are spread
			s.positions = lo.Times(per, func(r int) int { return r % n })
			return nil
		}
		if per > n && s.class.Memory == collective.CUDA {
			return fmt.Errorf("--ranks: the topology has %d GPUs, not %d; for more give --hosts, or another --topo%s", n, per,
				lo.Ternary(s.live(), ", or on this machine group.share_devices, for tests", ""))
		}
	}
	s.positions = lo.Range(min(per, n))
	return nil
}

// checkSize refuses a group that is too large, before anything grows with it.
func (s *subject) checkSize() error {
	hosts := s.question.hosts
	if n := len(s.positions) * hosts; n > collective.MaxWorldSize {
		return fmt.Errorf("--hosts: %d hosts with %d GPUs each make %d ranks, a group has at most %d; give at most --hosts %d, or fewer --devices",
			hosts, len(s.positions), n, collective.MaxWorldSize, collective.MaxWorldSize/len(s.positions))
	}
	return nil
}

// numbers names devices by their numbers.
func numbers(devices []topology.Device) string {
	if len(devices) == 0 {
		return "no GPUs (or none that this process can see)"
	}
	return strings.Join(lo.Map(devices, func(d topology.Device, _ int) string { return strconv.Itoa(d.Index) }), ", ")
}

// hostGroup is ranks whose buffers are in host memory, or of GPUs that nothing is known of.
func (s *subject) hostGroup() error {
	n := lo.CoalesceOrEmpty(s.question.ranks, len(s.positions)*s.question.hosts, 8)
	if s.foreign {
		s.group = collective.HostGroup("explain", n)
		for i := range s.group.Ranks {
			if s.question.hosts > 1 {
				s.group.Ranks[i].Host = fmt.Sprintf("host%d", i*s.question.hosts/n)
			}
		}
	} else {
		s.group = agent.GroupFacts("explain", make([]collective.Rank, n), s.machine, agent.Wishes{})
	}
	s.positions = nil
	if s.class.Memory == collective.CUDA {
		for a := range s.group.Links { // of the ranks' GPUs, not of their host's memory
			s.group.Links[a] = make([]topology.Link, n)
		}
		s.tell()
	}
	return nil
}

func (s *subject) gpuGroup() error {
	sub, err := s.machine.Sub(s.positions)
	if err != nil {
		return err
	}
	if s.foreign {
		s.group = collective.GPUGroup("explain", sub, s.question.hosts)
	} else {
		ranks := make([]collective.Rank, len(sub.Devices))
		for i := range ranks {
			ranks[i].Device = &sub.Devices[i]
		}
		s.group = agent.GroupFacts("explain", ranks, sub, agent.Wishes{})
	}
	s.infer()
	s.tell()
	return nil
}

// infer adds what follows from the links: a driver lets GPUs that are linked by NVLink or XGMI reach each other, and
// where links or capabilities rule multicast out there is none.
func (s *subject) infer() {
	n := s.group.WorldSize()
	direct := n > 1 && lo.EveryBy(slices.Collect(topology.Pairs(s.group.Links, n)), func(l topology.Link) bool {
		return l.Class == topology.NVLink || l.Class == topology.XGMI
	})
	switch {
	case s.divided():
		s.group.P2P = topology.P2PNone
	case direct && s.group.P2P == topology.P2PUnknown:
		s.group.P2P = topology.P2PReported
	}
	if s.group.Multicast == topology.NotKnown && s.group.Hosts() == 1 {
		s.group.Multicast, _ = diagnose.Multicast(s.machine, s.positions)
	}
}

// divided reports whether GPUs of the machine are divided (MIG): then ranks may have parts, which cannot reach each other.
func (s *subject) divided() bool {
	parts := lo.SomeBy(s.positions, func(p int) bool { return len(s.machine.Devices[p].MIG) > 0 })
	return parts || lo.SomeBy(s.warnings, func(w string) bool { return strings.HasPrefix(w, "MIG is on") })
}

// tell puts what the command line says in the place of what was found.
func (s *subject) tell() {
	if s.p2p != topology.P2PUnknown {
		s.group.P2P, s.group.P2PDetail, s.foreign = s.p2p, "", true
		s.warnings = lo.Reject(s.warnings, func(w string, _ int) bool { return strings.HasPrefix(w, "peer-to-peer access over PCIe") }) // it is told
	}
	if s.multicast != topology.NotKnown {
		s.group.Multicast, s.foreign = s.multicast, true
	}
}

package discover

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/topology"
)

var nodeName = regexp.MustCompile(`^node[0-9]+$`)

func (r *reader) host() topology.Host {
	h := topology.Host{CPU: field(r.procfs, "cpuinfo", "model name"), Cores: r.cores()}
	if h.Cores == 0 {
		r.note("cores: unknown: /proc/self/status does not show which this process may use")
	}
	if quota, ok := r.quota(); ok {
		r.note("a cgroup limits this process to the time of %s cores", strconv.FormatFloat(quota, 'f', -1, 64))
	}
	nodes, err := fs.ReadDir(r.sysfs, "devices/system/node")
	if err != nil {
		r.note("NUMA nodes: unknown: read /sys/devices/system/node: %v", cause(err))
	}
	h.NUMANodes = lo.CountBy(nodes, func(e fs.DirEntry) bool { return nodeName.MatchString(e.Name()) })
	return h
}

// cores is the number of online CPUs that this process may be scheduled on; 0 if not known. The kernel lists CPUs that
// are allowed but not there, so the list alone is not enough.
func (r *reader) cores() int {
	allowed, err := cpuList(field(r.procfs, "self/status", "Cpus_allowed_list"))
	if err != nil {
		return 0
	}
	if online, err := cpuList(line(r.sysfs, "devices/system/cpu/online")); err == nil {
		return len(lo.Intersect(allowed, online))
	}
	return len(allowed)
}

// maxCPUs bounds the length of a list: more than any kernel supports.
const maxCPUs = 1 << 16

// cpuList reads the kernel's form of a set of CPUs, such as "0-3,8".
func cpuList(s string) ([]int, error) {
	var cpus []int
	for part := range strings.SplitSeq(s, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		a, errA := strconv.ParseUint(first, 10, 16)
		b, errB := strconv.ParseUint(last, 10, 16)
		if errA != nil || errB != nil || b < a || len(cpus) > maxCPUs {
			return nil, fmt.Errorf("%q is not a list of CPUs", s)
		}
		for c := a; c <= b; c++ {
			cpus = append(cpus, int(c))
		}
	}
	return cpus, nil
}

// quota is the smallest CPU quota of the process's cgroups and those above them, in cores.
func (r *reader) quota() (cores float64, ok bool) {
	b, err := fs.ReadFile(r.procfs, "self/cgroup")
	if err != nil {
		return 0, false
	}
	for l := range strings.Lines(string(b)) {
		parts := strings.SplitN(strings.TrimSpace(l), ":", 3)
		if len(parts) != 3 {
			continue
		}
		root, read := "fs/cgroup", r.quotaV2
		if parts[1] != "" {
			root, read = "fs/cgroup/cpu", r.quotaV1
			if !slices.Contains(strings.Split(parts[1], ","), "cpu") {
				continue
			}
		}
		// Inside a container the path may be the host's and not exist here; its root then is the container's.
		for p := path.Clean("/" + parts[2]); ; p = path.Dir(p) {
			if q, found := read(path.Join(root, p)); found && (!ok || q < cores) {
				cores, ok = q, true
			}
			if p == "/" {
				break
			}
		}
	}
	return cores, ok
}

func (r *reader) quotaV2(dir string) (float64, bool) {
	quota, period, _ := strings.Cut(line(r.sysfs, path.Join(dir, "cpu.max")), " ")
	return ratio(quota, period)
}

func (r *reader) quotaV1(dir string) (float64, bool) {
	return ratio(line(r.sysfs, path.Join(dir, "cpu.cfs_quota_us")), line(r.sysfs, path.Join(dir, "cpu.cfs_period_us")))
}

// ratio is not ok for "max" and -1, which mean that there is no quota.
func ratio(quota, period string) (float64, bool) {
	q, errQ := strconv.ParseInt(quota, 10, 64)
	p, errP := strconv.ParseInt(period, 10, 64)
	if errQ != nil || errP != nil || q <= 0 || p <= 0 {
		return 0, false
	}
	return float64(q) / float64(p), true
}

package discover

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/core/topology/foreign"
)

// askSMI runs nvidia-smi, for where the library cannot be loaded into this process but the program is there.
func askSMI(name string, m Machine) (view, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return view{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), m.Patience)
	defer cancel()
	matrix, err := run(ctx, path, "topo", "-m")
	if err != nil {
		return view{}, err
	}
	access, errAccess := run(ctx, path, "topo", "-p2p", "r")
	if errAccess == nil {
		matrix += "\nnvidia-smi topo -p2p r\n" + access
	}
	r, err := foreign.Read([]byte(matrix))
	if err != nil {
		return view{}, fmt.Errorf("%s topo -m: %w", path, err)
	}
	v := view{devices: r.Graph.Devices, links: r.Graph.Links, peers: r.Graph.Peers, all: true}
	v.notes = append(v.notes, "NVML could not be asked; links are from "+path+" topo -m")
	if errAccess != nil {
		v.notes = append(v.notes, "peer-to-peer access: unknown: "+oneLine(errAccess))
	}
	if err := identities(ctx, path, v.devices); err != nil {
		return view{}, err // numbers identify nothing
	}
	return v, nil
}

// run is what a command writes, by the deadline of the context.
func run(ctx context.Context, path string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err == nil {
		return string(out), nil
	}
	text := strings.TrimSpace(string(out))
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		text = strings.TrimSpace(text + " " + string(exit.Stderr))
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return "", fmt.Errorf("%s %s: %w: %s", path, strings.Join(args, " "), err, text)
}

// identities gives devices the bus ids and UUIDs that nvidia-smi lists under the same numbers.
func identities(ctx context.Context, path string, devices []topology.Device) error {
	out, err := run(ctx, path, "--query-gpu=index,pci.bus_id,uuid,compute_cap,name", "--format=csv,noheader")
	if err != nil { // compute_cap is not in old versions
		if out, err = run(ctx, path, "--query-gpu=index,pci.bus_id,uuid,name,name", "--format=csv,noheader"); err != nil {
			return err
		}
	}
	for line := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimSpace(line), ", ", 5)
		index, err := strconv.Atoi(f[0])
		if err != nil || len(f) < 5 {
			continue
		}
		for i := range devices {
			if d := &devices[i]; d.Index == index {
				d.PCIBusID, d.UUID, d.Name, d.Vendor = kernelBusID(f[1]), f[2], f[4], "nvidia"
				if f[3] != f[4] {
					d.Capability = f[3]
				}
			}
		}
	}
	for _, d := range devices {
		if d.UUID == "" {
			return fmt.Errorf("%s does not list GPU %d, which its matrix has", path, d.Index)
		}
	}
	return nil
}

// kernelBusID writes a bus id such as "00000000:17:00.0" as the kernel does.
func kernelBusID(id string) string {
	id = strings.ToLower(id)
	if domain, rest, ok := strings.Cut(id, ":"); ok && len(domain) == 8 && strings.HasPrefix(domain, "0000") {
		return domain[4:] + ":" + rest
	}
	return id
}

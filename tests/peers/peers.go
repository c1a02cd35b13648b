package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// peer is a library found on this machine.
type peer struct {
	kind     string // as in setting
	name     string // with its version
	settings []setting
	commands func(s setting, c cell, seconds float64, folder string) []command
}

// command is one process to start.
type command struct {
	argv []string
	env  []string
	cpu  int // to run on; -1: any
}

// cell is what is compared.
type cell struct {
	Ranks int    `json:"ranks"`
	Bytes int64  `json:"bytes"`
	Type  string `json:"type"`
}

// findPeers looks for every peer. What is missing is a sentence each.
func findPeers(ctx context.Context, programs, python string, cores int) (found []peer, missing []string) {
	for _, look := range []func() (peer, error){
		func() (peer, error) { return findOpenMPI(ctx, programs) },
		func() (peer, error) { return findMPICH(ctx, programs) },
		func() (peer, error) { return findGloo(programs, cores) },
		func() (peer, error) { return findTorch(ctx, programs, python, cores) },
	} {
		p, err := look()
		if err != nil {
			missing = append(missing, err.Error())
			continue
		}
		found = append(found, p)
	}
	return found, missing
}

// named says of which library an error speaks.
func named(library, version string, err error) error {
	return fmt.Errorf("%s: %w", strings.TrimSpace(library+" "+version), err)
}

func program(programs, name string) (string, error) {
	path, err := filepath.Abs(filepath.Join(programs, name))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("its program %s is not built", path)
	}
	return path, nil
}

// launcher finds a program among names whose answer to --version contains words, and the version in it.
func launcher(ctx context.Context, names []string, words string) (path, version string, err error) {
	for _, n := range names {
		path, err := exec.LookPath(n)
		if err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		out, _ := exec.CommandContext(ctx, path, "--version").CombinedOutput() // one that fails says something else
		cancel()
		if v := versionIn(string(out)); strings.Contains(string(out), words) && v != "" {
			return path, v, nil
		}
	}
	return "", "", fmt.Errorf("none of %s is here", strings.Join(names, ", "))
}

var versionPattern = regexp.MustCompile(`\b(\d+)\.(\d+)(\.\d+)?`)

func versionIn(text string) string { return versionPattern.FindString(text) }

// majorMinor shortens a version, such as 4.1.6 to 4.1.
func majorMinor(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

func findOpenMPI(ctx context.Context, programs string) (peer, error) {
	path, version, err := launcher(ctx, []string{"mpirun.openmpi", "mpirun"}, "Open MPI")
	if err != nil {
		return peer{}, named("Open MPI", "", err)
	}
	prog, err := program(programs, "mpi.openmpi")
	if err != nil {
		return peer{}, named("Open MPI", version, err)
	}
	major, _ := strconv.Atoi(strings.SplitN(version, ".", 2)[0])
	settings := slices.DeleteFunc(openMPI(), func(s setting) bool { return s.from > major })
	return peer{kind: "openmpi", name: "Open MPI " + majorMinor(version), settings: settings, commands: func(s setting, c cell, seconds float64, _ string) []command {
		argv := slices.Concat([]string{path, "-n", strconv.Itoa(c.Ranks)}, openMPIArgs(s, major), []string{prog}, work(c, seconds))
		env := append([]string{"OMP_NUM_THREADS=1"}, s.env...)
		if os.Geteuid() == 0 {
			for _, v := range []string{"OMPI", "PRTE"} {
				env = append(env, v+"_ALLOW_RUN_AS_ROOT=1", v+"_ALLOW_RUN_AS_ROOT_CONFIRM=1")
			}
		}
		return []command{{argv, env, -1}}
	}}, nil
}

// openMPIArgs are a setting's arguments as that major version takes them.
func openMPIArgs(s setting, major int) []string {
	args, sm := s.args, "vader"
	if major >= 5 {
		sm = "sm"
		if s.args5 != nil {
			args = s.args5
		}
	}
	// With two threads to a core there are fewer slots than CPUs: no reason to refuse, nor to yield where there is room.
	all := []string{"--oversubscribe"}
	if s.when != crowded {
		all = append(all, mca("mpi_yield_when_idle", "0")...)
		if major >= 5 {
			all = append(all, "--map-by", "core")
		}
	}
	for _, a := range args {
		all = append(all, strings.ReplaceAll(a, "SM", sm))
	}
	return all
}

func work(c cell, seconds float64) []string {
	return []string{strconv.FormatInt(c.Bytes, 10), strconv.FormatFloat(seconds, 'g', -1, 64)}
}

func findMPICH(ctx context.Context, programs string) (peer, error) {
	path, version, err := launcher(ctx, []string{"mpirun.mpich", "mpiexec.mpich", "mpiexec.hydra", "mpiexec"}, "HYDRA")
	if err != nil {
		return peer{}, named("MPICH", "", err)
	}
	prog, err := program(programs, "mpi.mpich")
	if err != nil {
		return peer{}, named("MPICH", version, err)
	}
	return peer{kind: "mpich", name: "MPICH " + majorMinor(version), settings: mpich(), commands: func(s setting, c cell, seconds float64, _ string) []command {
		argv := slices.Concat([]string{path, "-n", strconv.Itoa(c.Ranks)}, s.args, []string{prog}, work(c, seconds))
		return []command{{argv, append([]string{"OMP_NUM_THREADS=1"}, s.env...), -1}}
	}}, nil
}

// ranksOf is one process for each rank, started by hand.
func ranksOf(argv []string, s setting, c cell, seconds float64, folder string, cores int) []command {
	all := make([]command, c.Ranks)
	for r := range all {
		cpu := -1
		if s.pinned {
			cpu = r % cores
		}
		all[r] = command{
			argv: slices.Concat(argv, []string{strconv.Itoa(r), strconv.Itoa(c.Ranks), folder}, s.args, work(c, seconds)),
			env:  append([]string{"OMP_NUM_THREADS=1", "GLOO_SOCKET_IFNAME=lo"}, s.env...), cpu: cpu,
		}
	}
	return all
}

func findGloo(programs string, cores int) (peer, error) {
	prog, err := program(programs, "gloo")
	if err != nil {
		return peer{}, named("Gloo", "", err)
	}
	return peer{kind: "gloo", name: "Gloo", settings: gloo(), commands: func(s setting, c cell, seconds float64, folder string) []command {
		return ranksOf([]string{prog}, s, c, seconds, folder, cores)
	}}, nil
}

func findTorch(ctx context.Context, programs, python string, cores int) (peer, error) {
	script, err := program(programs, "torch_gloo.py")
	if err != nil {
		return peer{}, named("PyTorch's gloo", "", err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, python, "-c", "import torch, torch.distributed as d; print(torch.__version__, d.is_gloo_available())").Output()
	if err != nil || !strings.Contains(string(out), "True") {
		return peer{}, named("PyTorch's gloo", "", fmt.Errorf("%s has no torch.distributed with gloo", python))
	}
	return peer{kind: "torch", name: "torch gloo " + majorMinor(versionIn(string(out))), settings: torch(), commands: func(s setting, c cell, seconds float64, folder string) []command {
		return ranksOf([]string{python, script}, s, c, seconds, folder, cores)
	}}, nil
}

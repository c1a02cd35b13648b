// Package foreign reads the topology of a machine from what other tools print, as people paste it.
package foreign

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-project/weir/core/topology"
)

// The formats, by the command that prints them.
const (
	TopoM    = "nvidia-smi topo -m"
	TopoMP   = "nvidia-smi topo -mp"
	TopoP2P  = "nvidia-smi topo -p2p"
	NVLinkS  = "nvidia-smi nvlink -s"
	ListGPUs = "nvidia-smi -L"
	QueryXML = "nvidia-smi -q -x"
	NCCLXML  = "NCCL topology XML"
	RCCLXML  = "RCCL topology XML"
	ROCmSMI  = "rocm-smi --showtopo"
	AMDSMI   = "amd-smi topology"
	NPUSMI   = "npu-smi info -t topo"
)

// maxBytes is the longest text that is read: far more than any machine prints.
const maxBytes = 1 << 20

// What no real text exceeds, so that a made-up one is read in bounded time.
const (
	maxDevices  = 256  // of a machine
	maxColumns  = 512  // of a matrix
	maxSections = 4096 // of a text
	maxDepth    = 64   // of an XML
	maxWarnings = 64
)

// Formats are the formats that Read knows.
func Formats() []string {
	return []string{TopoM, TopoMP, TopoP2P, NVLinkS, ListGPUs, QueryXML, NCCLXML, RCCLXML, ROCmSMI, AMDSMI, NPUSMI}
}

// Completeness is how much of its machine a text shows.
type Completeness string

// The kinds of completeness.
const (
	Whole   Completeness = "yes"      // nothing is known to be missing
	GPURows Completeness = "gpu-rows" // all of the GPUs, not all of the NICs
	Cut     Completeness = "no"       // GPUs or pairs are missing
)

// NIC is a network device that a text names.
type NIC struct {
	Name   string          // as the matrix has it, such as "NIC0" or "mlx5_0"
	Device string          // such as "mlx5_0", from the legend; "" if not told
	Links  []topology.Link // path to each GPU, by position
}

// Reading is what a text says of one machine. What it does not say is unknown or empty, never guessed.
type Reading struct {
	Formats []string // at least one; the first gave the links, if any did

	// Graph holds the devices with the numbers, NUMA nodes and CPUs as printed. A text that shows PCIe paths only
	// (`topo -mp`) fills Graph.PCIe and leaves Graph.Links unknown.
	Graph topology.Graph

	NVLinks  []int // NVLinks that are up, by device, -1 where not told; nil if for none
	NICs     []NIC
	Complete Completeness
	Warnings []string // what is missing, contradictory or suspect, and what to do; in no promised order

	printed [][]topology.Link // the classes as printed, where they are not Graph.Links
	more    bool              // there may be GPUs that the text does not name
}

// Format is the format that gave the links, or the only one.
func (r Reading) Format() string { return r.Formats[0] }

// Links are the classes that the text shows, by position: those of Graph, or the PCIe paths that `topo -mp` prints.
func (r Reading) Links() [][]topology.Link {
	if r.printed != nil {
		return r.printed
	}
	return r.Graph.Links
}

// Worst is the slowest class over the GPU pairs that the text shows; the zero Link if it shows none.
func (r Reading) Worst() topology.Link {
	var worst topology.Link
	links := r.Links()
	for l := range topology.Pairs(links, len(links)) {
		if l.Class != topology.Unknown && (worst.Class == topology.Unknown || l.Slower(worst)) {
			worst = l
		}
	}
	return worst
}

// FullNVLink says whether every two GPUs are connected by NVLink: no if a pair is known not to be, unknown if pairs
// are missing, hidden, or there is none.
func (r Reading) FullNVLink() topology.Answer {
	full := topology.FullNVLink(r.Graph.Links)
	if r.more && full == topology.Yes {
		return topology.NotKnown
	}
	if full == topology.NotKnown && len(r.Graph.Devices) > 1 && slices.Contains(r.NVLinks, 0) {
		return topology.No // a GPU without a link is linked to nobody, whoever the others are linked to
	}
	return full
}

// NVLinkGroups are disjoint sets of GPUs, by position, in which every pair is connected by NVLink.
func (r Reading) NVLinkGroups() [][]int { return r.groups(topology.NVLink) }

func (r Reading) groups(c topology.Class) [][]int {
	if r.more {
		return nil // each might have members that are not shown
	}
	return topology.Groups(r.Graph.Links, c)
}

func (r *Reading) warn(format string, args ...any) {
	if w := fmt.Sprintf(format, args...); len(r.Warnings) < maxWarnings && !slices.Contains(r.Warnings, w) {
		r.Warnings = append(r.Warnings, w)
	}
}

// Error says what could not be read and where.
type Error struct {
	Line, Column int // from 1; Column counts characters
	Text         string
}

func (e *Error) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Text)
}

// Read reads the topology of one machine. Of a text that holds several it reads the first and warns. The error is an
// *Error.
func Read(text []byte) (Reading, error) {
	all, err := ReadAll(text)
	if err != nil {
		return Reading{}, err
	}
	r := all[0]
	if n := len(all); n > 1 {
		r.warn("the text holds the output of %d machines (or of one, %d times); this is the first: give them one at a time", n, n)
	}
	return r, nil
}

// ReadAll reads the topologies of all machines in a text, at least one. The error is an *Error.
func ReadAll(text []byte) ([]Reading, error) {
	if len(text) > maxBytes {
		return nil, &Error{1, 1, fmt.Sprintf("the text has more than the %d bytes that are read; paste only the topology", maxBytes)}
	}
	src := decode(text).unquote().unwrap()
	readings, err := readTables(src)
	if err != nil {
		return nil, err
	}
	readings = merge(readings, readXML(src))
	readings = append(readings, readROCmJSON(src)...)
	if readings = withQueries(readings, readQuery(src)); len(readings) > 0 {
		checkCap(src, readings)
		return readings, nil
	}
	if strings.TrimSpace(string(src.text)) == "" {
		return nil, &Error{1, 1, "the text is empty; paste the output of `nvidia-smi topo -m`"}
	}
	return nil, &Error{1, 1, "no topology found; paste the whole output of one of: " + strings.Join(Formats(), ", ")}
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/samber/lo"
	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/core/topology/foreign"
	"github.com/weir-project/weir/engine/files"
	"github.com/weir-project/weir/engine/topo"
)

// topologyHelp says what --from and --topo take.
func topologyHelp() string {
	presets := lo.Map(topology.Presets(), func(p topology.PresetMachine, _ int) string { return fmt.Sprintf("  %-14s %s", p.Name, p.About) })
	return `FILE holds what another tool printed, as it was pasted; - is the standard input. Read are: ` +
		strings.Join(foreign.Formats(), ", ") + `. Several of one machine may stand in one text.

Presets:
` + strings.Join(presets, "\n")
}

func (a *app) topo() *cobra.Command {
	var from, format string
	var machine int
	c := &cobra.Command{
		Use:   "topo",
		Short: "Show the GPUs of this machine or of a pasted text, the links between them, and what looks wrong",
		Long: `Show the GPUs of this machine, or of --from, with the link between every two, the groups of full NVLink, the worst
link, NUMA nodes, what is known of peer-to-peer access, and warnings with what to do.

` + topologyHelp() + `

` + exitCodes,
		Example: "  weir topo\n  nvidia-smi topo -m | weir topo --from -\n  weir topo --from paste.txt --format svg > topo.svg\n  weir topo --from DGX-1 --format json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			write, ok := topoFormats[format]
			if !ok {
				return usageError{fmt.Errorf("--format: unknown format %q, want text, json or svg", format)}
			}
			if from == "-" {
				a.askForText(c.InOrStdin())
			}
			if from == "" {
				return write(a.stdout, a.liveReading())
			}
			r, err := readTopology(c.Context(), from, machine, c.InOrStdin())
			if err != nil {
				return err
			}
			return write(a.stdout, r)
		},
	}
	c.Flags().StringVar(&from, "from", "", "`FILE`, - for the standard input, or the name of a preset (default: this machine)")
	c.Flags().IntVar(&machine, "machine", 0, "`number` of the machine in a text that holds several, from 1 (default: the first, with a warning)")
	c.Flags().StringVar(&format, "format", "text", "`format` of the output: text, json or svg")
	return c
}

// askForText says what is waited for where a person types.
func (a *app) askForText(stdin io.Reader) {
	if f, ok := stdin.(*os.File); ok {
		null, _ := os.Stat(os.DevNull) // a character device too
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 && (null == nil || !os.SameFile(info, null)) {
			fmt.Fprintln(a.stderr, "paste the text, then press Ctrl-D")
		}
	}
}

var topoFormats = map[string]func(io.Writer, foreign.Reading) error{
	"text": topo.Text, "svg": topo.SVG,
	"json": func(w io.Writer, r foreign.Reading) error { return encodeJSON(w, topo.JSON(r)) },
}

// liveReading is this machine. It says what to run where nobody has proved that the GPUs reach each other.
func (a *app) liveReading() foreign.Reading {
	r := ofGraph("this machine", a.live())
	said := slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "run `weir doctor`") })
	if p := r.Graph.P2P; len(r.Graph.Devices) > 1 && !said && (p == topology.P2PReported || p == topology.P2PUnknown) {
		r.Warnings = append(slices.Clone(r.Warnings), "whether the GPUs reach each other's memory has not been proved on this machine: run `weir doctor`")
	}
	return r
}

// readTopology is the topology that a flag names, of a text or a preset. machine
// counts the machines of a text from 1; 0 takes the first and warns of others.
func readTopology(ctx context.Context, from string, machine int, stdin io.Reader) (foreign.Reading, error) {
	text, err := topologyText(ctx, from, stdin)
	if errors.Is(err, fs.ErrNotExist) {
		g, unknown := topology.Preset(from)
		if unknown != nil {
			return foreign.Reading{}, usageError{fmt.Errorf("there is no file %s, and %w", from, unknown)}
		}
		return ofGraph("preset "+from, g), nil
	}
	if err != nil {
		return foreign.Reading{}, wrong(err)
	}
	return machineOf(from, text, machine)
}

// machineOf reads one machine of a text.
func machineOf(from string, text []byte, machine int) (foreign.Reading, error) {
	if from == "-" {
		from = "standard input"
	}
	if machine == 0 {
		r, err := foreign.Read(text)
		if err != nil {
			return r, usageError{fmt.Errorf("%s: %w", from, err)}
		}
		return r, nil
	}
	all, err := foreign.ReadAll(text)
	if err != nil {
		return foreign.Reading{}, usageError{fmt.Errorf("%s: %w", from, err)}
	}
	if machine < 1 || machine > len(all) {
		return foreign.Reading{}, usageError{fmt.Errorf("--machine: %s holds %d, there is no number %d", from, len(all), machine)}
	}
	return all[machine-1], nil
}

// maxTopologyText is more than the readers take, so that they can say so.
const maxTopologyText = 2 << 20

// topologyText reads a file or the standard input; a signal ends the wait for it.
func topologyText(ctx context.Context, from string, stdin io.Reader) (text []byte, err error) {
	if from != "-" {
		text, err = files.Read(ctx, from, maxTopologyText)
	} else {
		err = files.Wait(ctx, func() (err error) {
			text, err = io.ReadAll(files.Bounded(ctx, stdin, maxTopologyText))
			return err
		})
	}
	if errors.Is(err, files.ErrTooLarge) {
		return nil, fmt.Errorf("read %s: %w; paste only the topology", from, err)
	}
	return text, err
}

// ofGraph is a reading of a graph that no text gave.
func ofGraph(source string, g topology.Graph) foreign.Reading {
	r := foreign.Reading{Formats: []string{source}, Graph: g, Complete: foreign.Whole, Warnings: g.Notes}
	if source == "this machine" && g.Complete != topology.Yes {
		r.Complete = foreign.Cut
	}
	r.Check()
	return r
}

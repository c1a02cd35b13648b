package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/samber/lo"
	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/engine/agent"
	"github.com/weir-project/weir/engine/files"
	"github.com/weir-project/weir/engine/terminal"
	"github.com/weir-project/weir/sdk/proto/rankv1"
)

// keptDumps is how many dumps of failed groups are kept.
const keptDumps = 20

func (a *app) dump() *cobra.Command {
	var format string
	var pid int
	c := &cobra.Command{
		Use:   "dump [FILE]",
		Short: "Show the last calls of every rank, live or of a group that has failed",
		Long: fmt.Sprintf(`Show what the flight recorder has: the last calls of every rank with number, class, bytes, backend, start and end.
Without FILE it is of the engines that run; if none does, of the group that failed last. When a group fails its calls are
kept in weir/dumps of XDG_STATE_HOME (~/.local/state); the log names the file. The last %d are kept.

Times are exact to %s. Calls in a replayed CUDA graph are not recorded.

`, keptDumps, rankv1.ClockEvery) + exitCodes,
		Example: "  weir dump --pid 4711",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if format != "text" && format != "json" {
				return badFormat(format)
			}
			groups, err := a.recorded(c, args, pid)
			if err != nil {
				return err
			}
			if format == "json" {
				return writeJSON(a.stdout, groups)
			}
			for _, g := range groups {
				writeCalls(a.stdout, g)
			}
			return nil
		},
	}
	formatFlag(c, &format)
	c.Flags().IntVar(&pid, "pid", 0, "only of the engine that is this `process`")
	return c
}

// recorded is what to show.
func (a *app) recorded(c *cobra.Command, args []string, pid int) ([]agent.GroupStatus, error) {
	if len(args) > 0 {
		return readDump(c.Context(), args[0])
	}
	runs, err := a.runs(c.Context(), pid, true)
	if err != nil {
		return nil, err
	}
	if len(runs) > 0 {
		return lo.FlatMap(runs, func(r runStatus, _ int) []agent.GroupStatus { return r.Groups }), nil
	}
	files := a.dumps()
	if len(files) == 0 {
		return nil, errors.New("no engine of this user runs, and no group has failed so far")
	}
	last := files[len(files)-1]
	fmt.Fprintln(a.stderr, "no engine runs; this is", last)
	return readDump(c.Context(), last)
}

// maxDump is the most that is read of a file: twice what a group of 1024 ranks fills with their last calls.
const maxDump = 256 << 20

func readDump(ctx context.Context, path string) ([]agent.GroupStatus, error) {
	text, err := files.Read(ctx, path, maxDump)
	if errors.Is(err, files.ErrTooLarge) {
		err = fmt.Errorf("%s is not a dump of a group: %w", path, err)
	}
	if err != nil {
		return nil, wrong(err)
	}
	g, err := parseDump(text)
	if err != nil {
		return nil, usageError{fmt.Errorf("%s is not a dump of a group: %w", path, err)}
	}
	return []agent.GroupStatus{g}, nil
}

func parseDump(text []byte) (g agent.GroupStatus, err error) {
	if err = json.Unmarshal(text, &g); err == nil && g.ID == "" {
		err = errors.New("it names no group")
	}
	return g, err
}

// dumpFolder is where calls of failed groups are kept; "" if there is no place for them.
func (a *app) dumpFolder() string {
	dir := a.getenv("XDG_STATE_HOME")
	if home := a.getenv("HOME"); dir == "" && home != "" {
		dir = filepath.Join(home, ".local", "state")
	}
	if !filepath.IsAbs(dir) {
		return ""
	}
	return filepath.Join(dir, "weir", "dumps")
}

// dumps are the files that are kept, the oldest first.
func (a *app) dumps() []string {
	files, _ := filepath.Glob(filepath.Join(a.dumpFolder(), "*.json"))
	slices.Sort(files) // the names begin with the time
	return files
}

// keepDump keeps what is known of a group that has failed.
func (a *app) keepDump(log *slog.Logger, s agent.GroupStatus) {
	dir := a.dumpFolder()
	if dir == "" {
		return
	}
	path := filepath.Join(dir, fmt.Sprintf("%s-%d-%s.json", time.Now().UTC().Format("20060102T150405.000"), os.Getpid(), s.ID))
	text, err := json.MarshalIndent(s, "", "  ")
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		log.Debug("the last calls are not kept", "error", err)
		return
	}
	if err != nil {
		log.Warn("the last calls are not kept", "error", err)
		return
	}
	log.Error("the last calls of the group are kept", "file", path, "show", "weir dump "+path)
	if files := a.dumps(); len(files) > keptDumps {
		for _, old := range files[:len(files)-keptDumps] {
			_ = os.Remove(old) // the next one tries again
		}
	}
}

func writeCalls(w io.Writer, g agent.GroupStatus) {
	w = terminal.New(w)
	fmt.Fprintf(w, "group %s of %s\n", g.ID, backend.Count(len(g.Ranks), "rank"))
	if g.Failed != "" {
		fmt.Fprintf(w, "failed: %s\n", g.Failed)
	}
	for _, r := range g.Ranks {
		fmt.Fprintf(w, "\nrank %d, process %d: %s\n", r.Rank, r.PID, r.Doing)
		if len(r.Last) == 0 {
			continue
		}
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "  CALL\tCLASS\tBYTES\tBACKEND\tBEGAN\tTOOK")
		for _, c := range r.Last {
			took := "has not ended"
			switch {
			case c.Rejected:
				took = "refused its arguments"
			case !c.End.IsZero() && c.End.Sub(c.Start) < rankv1.ClockEvery:
				took = "under " + rankv1.ClockEvery.String()
			case !c.End.IsZero():
				took = c.End.Sub(c.Start).Round(rankv1.ClockEvery).String()
			}
			fmt.Fprintf(t, "  %d\t%s\t%d\t%s\t%s\t%s\n", c.Number, c.Class, c.Bytes, lo.CoalesceOrEmpty(c.Backend, "-"), c.Start.Format("15:04:05.00"), took)
		}
		_ = t.Flush()
	}
	fmt.Fprintln(w)
}

package cli

import (
	"fmt"
	"strings"

	"github.com/samber/lo"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weir-project/weir/engine/config"
)

// unknownCommand is the error for a word that names no command, nil if args name one. Cobra itself would read the flags first,
// and complain of one that belongs to the command that was meant.
func unknownCommand(root *cobra.Command, args []string) error {
	c, rest, err := root.Find(args)
	if err != nil || !c.HasAvailableSubCommands() || len(rest) == 0 || strings.HasPrefix(rest[0], "-") {
		return nil
	}
	word := rest[0]
	if strings.HasPrefix(word, "__") { // completion asks by these
		return nil
	}
	commands := lo.FilterMap(c.Commands(), func(x *cobra.Command, _ int) (string, bool) { return x.Name(), x.IsAvailableCommand() })
	return usageError{fmt.Errorf("unknown command %q%s (see `%s --help`)", word, meant(commands, word), c.CommandPath())}
}

// elsewhere answers flags that people bring from nccl-tests, by command and error.
var elsewhere = map[string]string{
	"bench unknown shorthand flag: 'g' in -g": ": a rank is one GPU here, so -g N of nccl-tests is --ranks N",
	"bench unknown flag: --ngpus":             ": a rank is one GPU here, so --ngpus N of nccl-tests is --ranks N",
	"bench unknown shorthand flag: 't' in -t": ": a rank is a process of its own here, so -t N of nccl-tests is --ranks N",
	"bench unknown flag: --nthreads":          ": a rank is a process of its own here, so --nthreads N of nccl-tests is --ranks N",
	"bench unknown shorthand flag: 'm' in -m": ": -m N of nccl-tests groups calls; Weir makes one call at a time",
	"bench unknown shorthand flag: 'r' in -r": ": all-reduce has no root",
}

// badFlag is the error for flags that cannot be read, with the one that was meant if it looks like one of the command's.
func badFlag(c *cobra.Command, err error) error {
	hint := elsewhere[c.Name()+" "+err.Error()]
	if name, unknown := strings.CutPrefix(err.Error(), "unknown flag: --"); unknown {
		var flags []string
		c.Flags().VisitAll(func(f *pflag.Flag) { flags = append(flags, f.Name) })
		if near := config.Nearest(flags, name); near != "" {
			hint = fmt.Sprintf(", did you mean --%s?", near)
		}
	}
	return usageError{fmt.Errorf("%w%s (see `%s --help`)", err, hint, c.CommandPath())}
}

// meant is how an error goes on after a word that is none of the known ones.
func meant(known []string, word string) string {
	if near := config.Nearest(known, word); near != "" {
		return fmt.Sprintf(", did you mean %s?", near)
	}
	return ""
}

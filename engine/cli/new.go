package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/engine/config"
	"github.com/weir-project/weir/engine/scaffold"
	"github.com/weir-project/weir/examples"
	"github.com/weir-project/weir/sdk/kernel"
	"github.com/weir-project/weir/sdk/worker"
)

func (a *app) newPlugin() *cobra.Command {
	o := scaffold.Options{Weir: Version}
	var kind string
	c := &cobra.Command{
		Use:   "new DIR --name NAME --kind KIND",
		Short: "Begin a backend: a folder that builds, is loaded and all-reduces",
		Long: `Write a new folder with a plugin of one backend: its source, which is one of Weir's examples under another name, tests, a
configuration that loads it (weir.yaml) and a README that says how to build, test and run it. A plugin in Go is a module of
its own.

Kinds of backends by language: ` + scaffold.Choices() + `.

  schedule  a program for each rank over shared host memory, proved before it is used
  kernel    a GPU kernel that every rank launches
  library   a shared library with the NCCL ABI
  worker    the plugin's own process does the work

` + exitCodes,
		Example: `  weir plugins new my-ring --name my-ring --kind schedule --sdk ~/weir
  weir plugins new logger --name logger --kind worker --lang python`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			o.Kind = plan.Kind(kind)
			if err := a.writeNew(c.Context(), args[0], o); err != nil {
				return usageError{err}
			}
			return nil
		},
	}
	c.Flags().StringVar(&o.Name, "name", "", "`name` of the plugin and its backend: lower-case letters, digits and '-'")
	c.Flags().StringVar(&kind, "kind", "", "`kind` of plan: schedule, kernel, library or worker")
	c.Flags().StringVar(&o.Lang, "lang", scaffold.Go, "`language`: go, python or c")
	c.Flags().StringVar(&o.SDK, "sdk", "", "`folder` of Weir's source that a module in Go takes the SDK from; needed with a development build")
	return c
}

func (a *app) writeNew(ctx context.Context, dir string, o scaffold.Options) (err error) {
	switch {
	case o.Name == "":
		return fmt.Errorf("--name: name the backend, such as --name my-ring")
	case o.Kind == "":
		return fmt.Errorf("--kind: name the kind of plan; there are %s", scaffold.Choices())
	case o.Name != "" && isFile(a.shipped(o.Name)):
		return fmt.Errorf("--name: %s would replace the plugin %s: choose another name", o.Name, a.shipped(o.Name))
	case o.SDK != "" && o.Lang != scaffold.Go:
		return fmt.Errorf("--sdk: a backend in %s takes nothing from Weir's source", o.Lang)
	case o.SDK != "":
		if o.SDK, err = filepath.Abs(o.SDK); err != nil {
			return err
		}
	}
	if bridge := filepath.Join(filepath.Dir(a.exe), "weir-bridge"); a.exe != "" && isFile(bridge) {
		o.Bridge = bridge
	}
	files, err := scaffold.Files(scaffold.Sources{
		Examples: examples.Files,
		Headers:  map[string][]byte{kernel.HeaderName: kernel.Header, worker.HeaderName: worker.Header},
	}, o)
	if err == nil {
		err = scaffold.Write(dir, files)
	}
	if err != nil {
		return err
	}
	if o.Lang == scaffold.Go {
		if err := scaffold.Tidy(ctx, dir); err != nil {
			fmt.Fprintf(a.stderr, "%s\n(the backend builds as it is; run it later)\n", oneLine(err))
		}
	}
	return a.saysNew(dir, o, files)
}

// shipped is where a plugin of this name would be that comes with weir.
func (a *app) shipped(name string) string {
	dir := config.Default(a.exe).PluginDir
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, filepath.Base(name))
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// saysNew says what was written and what to do next.
func (a *app) saysNew(dir string, o scaffold.Options, files []scaffold.File) error {
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f.Name
	}
	build := map[string]string{scaffold.Go: "CGO_ENABLED=0 go build -o " + o.Executable() + " . && ", scaffold.C: "make && "}[o.Lang]
	_, err := fmt.Fprintf(a.stdout, "%s: %s\n\n  cd %s && %sweir plugins list -c weir.yaml\n\n%s says more.\n", dir, strings.Join(names, " "), dir, build,
		filepath.Join(dir, "README.md"))
	return err
}

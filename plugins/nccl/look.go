package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/plan"
	"github.com/weir-project/weir/sdk/native/cuda"
	"github.com/weir-project/weir/sdk/native/dl"
	"github.com/weir-project/weir/sdk/native/nccl"
)

// prober looks for libraries on this machine. Its zero value looks where they usually are.
type prober struct {
	driver   string   // the CUDA driver's library; "" for the loader's search
	name     string   // of NCCL for the loader's search; "" for NCCL's own
	prefixes []string // of Python installations; nil for the usual ones
}

// look finds a library that can be run, or every reason why there is none.
func (p prober) look(s settings, own string) (plan.Library, []backend.Reason) {
	reasons := p.driverReasons(s)
	found, more := p.library(s, own)
	return found, append(reasons, more...)
}

// driverReasons say why the CUDA driver cannot be used. It is loaded and initialised, and makes no context.
func (p prober) driverReasons(s settings) []backend.Reason {
	if s.Variant == "rccl" {
		return nil // not NVIDIA's
	}
	driver, err := cuda.Open(cmp.Or(p.driver, cuda.LibraryName))
	if err != nil {
		return []backend.Reason{loadReason(cuda.LibraryName, err)}
	}
	err = driver.Init()
	var failed *cuda.Error
	if errors.As(err, &failed) {
		r := backend.Because(backend.InitFailed, cmp.Or(failed.Name, fmt.Sprintf("CUDA error %d", failed.Code)), "a CUDA driver that starts")
		switch failed.Code {
		case cuda.NoDevice:
			r.Required = "a GPU that this process may use"
		case cuda.DriverMismatch, cuda.DriverNotCompat:
			r.Code, r.Required = backend.Version, "a CUDA driver whose library and kernel module belong together"
		}
		r.Text = fmt.Sprintf("%s of %s", err, driver.Path())
		return []backend.Reason{r}
	}
	return nil
}

// library is the first library that can be loaded, has the functions and is new enough.
func (p prober) library(s settings, own string) (plan.Library, []backend.Reason) {
	var (
		absent  dl.NotFoundError
		refused []backend.Reason
	)
	places, nowhere := p.places(s, own)
	for _, name := range places {
		lib, err := dl.Open(name)
		var notFound *dl.NotFoundError
		if errors.As(err, &notFound) {
			absent.Tried = append(absent.Tried, notFound.Tried...)
			continue
		}
		found, reasons := vet(lib, s.Variant)
		if len(reasons) == 0 {
			return found, nil // stays loaded: some libraries do not survive being unloaded
		}
		refused = append(refused, reasons...)
	}
	if len(absent.Tried) > 0 {
		r := loadReason(nccl.LibraryName, &absent)
		r.Text += nowhere
		refused = append(refused, r)
	}
	return plan.Library{}, refused
}

// vet says what is wrong with a library for a plan of the variant.
func vet(lib *dl.Library, variant string) (plan.Library, []backend.Reason) {
	if missing := nccl.Missing(lib); len(missing) > 0 {
		return plan.Library{}, lo.Map(missing, func(symbol string, _ int) backend.Reason {
			return backend.Reason{Code: backend.SymbolMissing, Rank: backend.AnyRank, Required: symbol, Text: lib.Path()}
		})
	}
	if variant == "nccl-symm" {
		if absent := lo.Reject(nccl.SymmetricSymbols, func(s string, _ int) bool { return lib.Has(s) }); len(absent) > 0 {
			return plan.Library{}, symmetricReasons(lib, absent)
		}
	}
	version, err := nccl.Version(lib)
	switch {
	case err != nil:
		return plan.Library{}, []backend.Reason{{Code: backend.InitFailed, Rank: backend.AnyRank, Text: fmt.Sprintf("%s of %s", err, lib.Path())}}
	case variant != "mscclpp" && tooOld(version): // MSCCL++ counts its own versions
		return plan.Library{}, []backend.Reason{{
			Code: backend.Version, Rank: backend.AnyRank, Observed: version, Required: nccl.OldestVersion + " or newer", Text: lib.Path(),
		}}
	}
	if variant == "nccl-symm" && backend.CompareVersions(version, nccl.SymmetricVersion) < 0 {
		return plan.Library{}, []backend.Reason{tooOldForWindows(lib, version)}
	}
	return plan.Library{Path: lib.Path(), Version: version, Variant: variant}, nil
}

func tooOldForWindows(lib *dl.Library, version string) backend.Reason {
	return backend.Reason{
		Code: backend.Version, Rank: backend.AnyRank, Observed: version, Required: nccl.SymmetricVersion + " or newer, for symmetric memory", Text: lib.Path(),
	}
}

// symmetricReasons are why a library without the functions for symmetric memory cannot be used: it is too old, or else built
// without them.
func symmetricReasons(lib *dl.Library, absent []string) []backend.Reason {
	if version, err := nccl.Version(lib); err == nil && backend.CompareVersions(version, nccl.SymmetricVersion) < 0 {
		return []backend.Reason{tooOldForWindows(lib, version)}
	}
	return lo.Map(absent, func(symbol string, _ int) backend.Reason {
		return backend.Reason{Code: backend.SymbolMissing, Rank: backend.AnyRank, Required: symbol, Text: lib.Path()}
	})
}

// places are where to look, best first, and words on where there is nothing to try. The ranks' own copy, or else
// the settings' library, is taken or nothing.
func (p prober) places(s settings, own string) (places []string, nowhere string) {
	if only := cmp.Or(own, s.Library); only != "" {
		return []string{only}, ""
	}
	prefixes := p.prefixes
	if prefixes == nil {
		prefixes = pythonPrefixes()
	}
	places = []string{cmp.Or(p.name, nccl.LibraryName)}
	for _, prefix := range prefixes {
		for _, packages := range []string{"site-packages", "dist-packages"} {
			// The pattern is well formed, and a prefix with special characters only finds nothing.
			found, _ := filepath.Glob(filepath.Join(prefix, "lib", "python3*", packages, "nvidia", "nccl", "lib", nccl.LibraryName))
			places = append(places, found...)
		}
	}
	if len(places) == 1 {
		nowhere = "; none in a Python package nvidia/nccl below " + strings.Join(prefixes, ", ")
	}
	return places, nowhere
}

// pythonPrefixes are where Python keeps packages; NVIDIA's package of NCCL puts the library among them.
func pythonPrefixes() []string {
	prefixes := []string{os.Getenv("VIRTUAL_ENV"), os.Getenv("CONDA_PREFIX")}
	if home, err := os.UserHomeDir(); err == nil {
		prefixes = append(prefixes, filepath.Join(home, ".local"))
	}
	if python, err := exec.LookPath("python3"); err == nil {
		prefixes = append(prefixes, filepath.Dir(filepath.Dir(python))) // not where the link leads: that is another environment
	}
	prefixes = append(prefixes, "/usr/local", "/usr")
	return lo.Uniq(lo.Compact(prefixes))
}

// loadReason tells a library that is not there from one that lacks a function.
func loadReason(name string, err error) backend.Reason {
	r := backend.Reason{Code: backend.LibMissing, Rank: backend.AnyRank, Required: name, Text: err.Error()}
	var symbol *dl.SymbolError
	if errors.As(err, &symbol) {
		r.Code, r.Required, r.Text = backend.SymbolMissing, symbol.Symbol, symbol.Library
	}
	return r
}

package nccl

import (
	"fmt"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/native/dl"
)

// What the drop-in for NCCL exports beside NCCL's functions: by dropInMark it is told from NCCL, and dropInOpened is the path of the real
// library, which it opens if it has not yet; "" if it finds none.
const (
	dropInName   = "libweir-nccl.so"
	dropInMark   = "weir_nccl_dropin"
	dropInOpened = "weir_nccl_opened"
)

// Loaded are the copies of NCCL that are in this process already, with their versions; a version that the copy does not
// tell is "". Where the drop-in for NCCL is, it is the one copy that the drop-in passes calls to, whatever its file is called and
// whatever else is loaded.
func Loaded() ([]collective.Library, error) {
	paths, err := dl.Loaded("libnccl.so")
	if err != nil {
		return nil, err
	}
	dropIns, err := dl.Loaded(dropInName)
	if err != nil {
		return nil, err
	}
	var found []collective.Library
	for _, path := range append(dropIns, paths...) {
		lib, err := dl.Open(path) // the loader counts another user of the same copy
		if err != nil {
			return found, fmt.Errorf("the copy of NCCL that this process has loaded: %w", err)
		}
		if !lib.Has(dropInMark) {
			found = append(found, describe(lib))
			continue
		}
		if opened := openedBy(lib); opened != "" {
			if lib, err = dl.Open(opened); err != nil {
				return nil, fmt.Errorf("the copy of NCCL that the drop-in has opened: %w", err)
			}
			return []collective.Library{describe(lib)}, nil
		}
	}
	return lo.UniqBy(found, func(l collective.Library) string { return l.Path }), nil
}

func describe(lib *dl.Library) collective.Library {
	version, err := Version(lib)
	if err != nil {
		version = ""
	}
	return collective.Library{Name: "nccl", Path: lib.Path(), Version: version}
}

// openedBy is the real library of a drop-in.
func openedBy(dropIn *dl.Library) string {
	var opened func() string
	if err := dropIn.Bind(&opened, dropInOpened); err != nil {
		return "" // of a version before
	}
	return opened()
}

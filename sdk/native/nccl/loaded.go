package nccl

import (
	"fmt"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/native/dl"
)

// Loaded are the copies of NCCL that are in this process already, with their versions; a version that the copy does not
// tell is "".
func Loaded() ([]collective.Library, error) {
	paths, err := dl.Loaded("libnccl.so")
	if err != nil {
		return nil, err
	}
	var found []collective.Library
	for _, path := range paths {
		lib, err := dl.Open(path) // the loader counts another user of the same copy
		if err != nil {
			return found, fmt.Errorf("the copy of NCCL that this process has loaded: %w", err)
		}
		version, err := Version(lib)
		if err != nil {
			version = ""
		}
		found = append(found, collective.Library{Name: "nccl", Path: lib.Path(), Version: version})
	}
	return found, nil
}

package dl

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/samber/lo"
)

// Loaded are the paths of the shared libraries in this process whose file name begins with prefix, in the order of
// their addresses.
func Loaded(prefix string) ([]string, error) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil, fmt.Errorf("libraries of this process: %w", err)
	}
	return loaded(string(maps), prefix), nil
}

func loaded(maps, prefix string) []string {
	var paths []string
	for line := range strings.Lines(maps) {
		_, path, found := strings.Cut(strings.TrimSpace(line), "/")
		if path = "/" + path; strings.HasSuffix(path, " (deleted)") {
			continue // its file is gone, so it cannot be opened again
		}
		if found && strings.HasPrefix(filepath.Base(path), prefix) {
			paths = append(paths, path)
		}
	}
	return lo.Uniq(paths)
}

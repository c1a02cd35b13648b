// Package examples holds the files of examples that `weir plugins new` makes new backends of.
package examples

import "embed"

// Files are the examples by their folders, without what belongs to this repository alone.
//
//go:embed backend-minimal/main.go backend-minimal/main_test.go
//go:embed backend-kernel/main.go backend-kernel/main_test.go backend-kernel/sum.cu backend-kernel/sum.ptx
//go:embed backend-library/main.go backend-library/main_test.go
//go:embed backend-worker/main.go backend-worker/main_test.go
//go:embed backend-python/backend.py backend-python/weir_plugin.py backend-python/weir_worker.py backend-python/plugin_pb2.py
//go:embed backend-python/test_backend.py
//go:embed backend-c/adder.c backend-c/weir_plugin.c backend-c/weir_plugin.h backend-c/vectors.c backend-c/Makefile
var Files embed.FS

package main

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/core/topology"
	"github.com/weir-project/weir/sdk/native/nccl"
	"github.com/weir-project/weir/tests/fakegpu"
)

// TestSymmetric says which of version, symbol, link or memory kind is missing.
func TestSymmetric(t *testing.T) {
	whole, without := fakegpu.NCCL(t), fakegpu.NCCL(t, "-DNO_WINDOWS")
	cudaDriver := driver(t, 0)
	for name, c := range map[string]struct {
		library, version string
		change           func(*backend.Request)
		want             string
	}{
		"all there":       {whole, "22809", nil, "accept all sizes"},
		"version":         {whole, "22605", nil, "decline; VERSION: 2.26.5, needs 2.27 or newer, for symmetric memory ("},
		"old and without": {without, "22605", nil, "decline; VERSION: 2.26.5, needs 2.27 or newer, for symmetric memory ("},
		"symbols":         {without, "22809", nil, "decline; SYMBOL_MISSING: needs ncclMemAlloc ("},
		"one GPU for two": {whole, "22809", func(r *backend.Request) {
			for i := range r.Group.Ranks {
				r.Group.Ranks[i].Device = &topology.Device{UUID: "GPU-1"}
			}
			r.Group.ShareDevices = true
		}, "decline; LINK_NOT_FULL on rank 1: ranks 0 and 1 on one GPU, needs peer-to-peer access"},
		"no peer-to-peer": {whole, "22809", func(r *backend.Request) { r.Group.P2P = topology.P2PNone }, "decline; P2P_UNREPORTED: none, needs peer-to-peer access"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("NCCL_FAKE_VERSION", c.version)
			l, req := newSymmetric(), request()
			l.prober, l.settings.Library = onlyHere(cudaDriver, ""), c.library
			if c.change != nil {
				c.change(&req)
			}
			v, err := l.Accept(t.Context(), req)
			if err != nil || !strings.HasPrefix(v.String(), c.want) {
				t.Errorf("got %s, %v; want %s", v, err, c.want)
			}
		})
	}
	req := request()
	checkVerdict(t, newSymmetric().Info().Check(req), "MEMORY: not registered, needs registered memory")
	req.Class.Registered = true
	if v := newSymmetric().Info().Check(req); v.Kind != backend.Accept {
		t.Errorf("registered: %s", v)
	}
	req.Class = collective.Class{}
	checkVerdict(t, newSymmetric().Info().Check(req), "MEMORY: host, needs cuda", "MEMORY: not registered")
}

// TestWrongProcessor is a library for another processor.
func TestWrongProcessor(t *testing.T) {
	image, err := os.ReadFile(fakegpu.NCCL(t))
	if err != nil {
		t.Fatal(err)
	}
	const machineOffset = 18
	binary.LittleEndian.PutUint16(image[machineOffset:], uint16(elf.EM_S390))
	path := filepath.Join(t.TempDir(), nccl.LibraryName)
	if err := os.WriteFile(path, image, 0o600); err != nil {
		t.Fatal(err)
	}
	_, v := accept(t, settings{Library: path}, onlyHere(driver(t, 0), ""), request())
	checkVerdict(t, v, "LIB_MISSING: needs libnccl.so.2 ("+path+": a library for EM_S390, this is ")
}

package main

import (
	"os"
	"testing"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/sdk/backendtest"
)

// TestBackend holds the backend to the contract with the library that TEST_LIBRARY names.
func TestBackend(t *testing.T) {
	l := newLibrary()
	if l.settings.Library = os.Getenv("TEST_LIBRARY"); l.settings.Library == "" {
		t.Skip("TEST_LIBRARY names no library with the NCCL ABI, such as libnccl.so.2")
	}
	backendtest.Run(t, l)
}

// TestNoLibrary: what is not there is a reason, not an error.
func TestNoLibrary(t *testing.T) {
	l := newLibrary()
	l.settings.Library = "/nowhere/libnccl.so.2"
	req := backend.Request{Group: collective.HostGroup("g", 2), Class: collective.Class{Memory: collective.CUDA}}
	v, err := l.Accept(t.Context(), req)
	if err != nil || v.Kind != backend.Decline || v.Reasons[0].Code != backend.LibMissing {
		t.Errorf("%s, %v", v, err)
	}
	req.Hypothetical = true
	if v, err := l.Accept(t.Context(), req); err != nil || v.Kind != backend.Accept {
		t.Errorf("of another machine: %s, %v", v, err)
	}
}

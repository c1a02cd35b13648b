package main

import (
	"testing"

	"github.com/weir-project/weir/sdk/backendtest"
)

// TestBackend holds the backend to the contract and runs its plan for every data type and reduce op.
func TestBackend(t *testing.T) {
	backendtest.Run(t, allReduce{})
}

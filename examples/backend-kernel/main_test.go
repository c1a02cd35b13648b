package main

import (
	"testing"

	"github.com/weir-project/weir/sdk/backendtest"
)

// TestBackend holds the backend to the contract. Its kernel runs where there is a GPU.
func TestBackend(t *testing.T) { backendtest.Run(t, allReduce{}) }

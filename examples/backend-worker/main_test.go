package main

import (
	"testing"

	"github.com/weir-project/weir/sdk/backendtest"
	"github.com/weir-project/weir/sdk/worker"
)

func TestBackend(t *testing.T) { backendtest.Run(t, allReduce{worker.Server{Do: worker.Reduce}}) }

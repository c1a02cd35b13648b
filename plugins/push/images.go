package main

import "embed"

// images are the kernels as PTX, which ./task kernels makes.
//
//go:embed kernels/*.ptx
var images embed.FS

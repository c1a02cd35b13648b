// Package kernel holds what authors of GPU kernels include: weir_kernel.h.
package kernel

import _ "embed"

// HeaderName is what kernels include.
const HeaderName = "weir_kernel.h"

// Header is the contents of weir_kernel.h.
//
//go:embed weir_kernel.h
var Header []byte

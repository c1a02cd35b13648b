// Package kernel has the C header for kernel authors, for programs that compile kernels.
package kernel

import _ "embed" // for the header

// HeaderName is what kernels include it by.
const HeaderName = "weir_kernel.h"

// Header is the text of weir_kernel.h.
//
//go:embed weir_kernel.h
var Header string

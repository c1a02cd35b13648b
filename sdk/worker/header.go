package worker

import _ "embed" // for the header

// HeaderName is what workers in C include.
const HeaderName = "weir_worker.h"

// Header is the contents of weir_worker.h.
//
//go:embed weir_worker.h
var Header []byte

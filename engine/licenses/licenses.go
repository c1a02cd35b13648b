// Package licenses holds the licences of all that is linked into Weir's programs, so that they travel with the binary.
package licenses

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
)

// packed is THIRD_PARTY_LICENSES; `./task licenses` writes both.
//
//go:embed third_party.gz
var packed []byte

// Print writes the texts.
func Print(w io.Writer) error {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return err
}

// Command licenses writes THIRD_PARTY_LICENSES: the licences of all modules that are linked into the programs and libraries of Weir.
package main

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Where the text is kept, as people read it and as weir prints it.
const (
	textFile     = "THIRD_PARTY_LICENSES"
	embeddedFile = "engine/licenses/third_party.gz"
)

func main() {
	root := flag.String("root", ".", "`folder` of the repository")
	flag.Parse()
	if err := write(*root); err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}

func write(root string) error {
	all, err := linked(root)
	if err != nil {
		return err
	}
	text, err := document(all)
	if err != nil {
		return err
	}
	goText, err := goLicence(root)
	if err != nil {
		return err
	}
	text += goText
	packed, err := pack(text)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, textFile), []byte(text), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, embeddedFile), packed, 0o644)
}

func pack(text string) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write([]byte(text)); err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}

// goLicence is the section of Go, whose runtime and standard library are in every program. It has no version: that is the builder's.
func goLicence(root string) (string, error) {
	env := exec.Command("go", "env", "GOROOT")
	env.Dir = root
	out, err := env.Output()
	if err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	goroot := strings.TrimSpace(string(out))
	licence, err := os.ReadFile(filepath.Join(goroot, "LICENSE"))
	if err != nil {
		return "", fmt.Errorf("the licence of Go, for one take Go from go.dev: %w", err)
	}
	patents, _ := os.ReadFile(filepath.Join(goroot, "PATENTS"))
	return section([]string{goSection}, plain(licence)+"\n"+plain(patents)), nil
}

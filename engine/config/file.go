package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/weir-project/weir/engine/files"
)

// maxFile bounds a configuration file, so that a wrong path (a device, a data file) is noticed at once.
const maxFile = 1 << 20

// layer is the values of one source, typed and nested, and where each came from.
type layer struct {
	values  map[string]any
	origins map[string]string // by key, levels divided by dots
}

// Read makes a layer a koanf.Provider.
func (l layer) Read() (map[string]any, error) { return l.values, nil }

// ReadBytes belongs to koanf.Provider; a layer has no bytes.
func (l layer) ReadBytes() ([]byte, error) { return nil, errors.New("a layer holds values, not bytes") }

// readFile reads and checks a YAML file; the path "" is no file. Every error names the file, and the line where there is one.
func readFile(path string) (layer, error) {
	l := layer{values: map[string]any{}, origins: map[string]string{}}
	if path == "" {
		return l, nil
	}
	data, err := readLimited(path)
	if err != nil {
		return l, err
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return l, fmt.Errorf("configuration file %s: %w", path, err)
	}
	root, err := parseYAML(path, data)
	if err != nil || root == nil {
		return l, err
	}
	r := reader{where: func(y *yaml.Node) string { return fmt.Sprintf("%s:%d", path, y.Line) }, dir: dir, origins: l.origins}
	if root.Kind != yaml.MappingNode {
		return l, r.fail(root, fmt.Errorf("the file must hold a mapping of keys, such as \"group:\", not %s", describe(root.ShortTag())))
	}
	l.values, err = r.mapping(schema, nil, root)
	return l, err
}

func readLimited(path string) ([]byte, error) {
	data, err := files.Read(context.Background(), path, maxFile)
	if errors.Is(err, files.ErrTooLarge) {
		return nil, fmt.Errorf("configuration file %s: larger than %s; is it a configuration?", path, Size(maxFile))
	}
	if err != nil {
		return nil, fmt.Errorf("configuration file %s: %w", path, cause(err))
	}
	return data, nil
}

// cause leaves out the operation and the path, which the message names already.
func cause(err error) error {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path.Err
	}
	return err
}

var yamlError = regexp.MustCompile(`^yaml: (?:line (\d+): )?((?s:.*))$`)

// parseYAML is the root of the only document, nil if the file says nothing.
func parseYAML(path string, data []byte) (*yaml.Node, error) {
	var doc, second yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(data))
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err == nil {
		if err = dec.Decode(&second); err == nil {
			return nil, fmt.Errorf("%s:%d: a second YAML document begins; a configuration is one", path, second.Line)
		}
	}
	if !errors.Is(err, io.EOF) {
		where, text := path, strings.Join(strings.Fields(err.Error()), " ")
		if m := yamlError.FindStringSubmatch(text); m != nil {
			text = m[2]
			if m[1] != "" {
				where += ":" + m[1]
			}
		}
		return nil, fmt.Errorf("%s: not valid YAML: %s", where, text)
	}
	root := doc.Content[0]
	if root.ShortTag() == tagNull {
		return nil, nil
	}
	return root, nil
}

package config

import (
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/samber/lo"
)

// The YAML tags of scalars. Text from the environment and from flags has none: any type may be read from it.
const (
	untyped    = ""
	tagString  = "!!str"
	tagInt     = "!!int"
	tagFloat   = "!!float"
	tagBool    = "!!bool"
	tagNull    = "!!null"
	tagTime    = "!!timestamp"
	tagMapping = "!!map"
	tagList    = "!!seq"
)

// parse turns a scalar into the Go value of n's type. A tag other than untyped must fit: nothing is converted. Relative
// paths are taken to start at base.
func (n *node) parse(text, tag, base string) (any, error) {
	if strings.ContainsRune(text, 0) {
		return nil, fmt.Errorf("%q contains a NUL character", text)
	}
	if tag == tagTime { // text that happens to look like a date
		tag = tagString
	}
	isText := tag == tagString || tag == untyped
	isNumber := tag == tagInt || tag == tagFloat
	switch n.typ {
	case reflect.TypeFor[time.Duration]():
		if isText || isNumber {
			return parseDuration(text)
		}
		return nil, fmt.Errorf(`must be a duration such as "500ms", not %s`, describe(tag))
	case reflect.TypeFor[Size]():
		if isText || isNumber {
			return ParseSize(text)
		}
		return nil, fmt.Errorf(`must be a size such as "64KiB", not %s`, describe(tag))
	case stringList:
		if tag == untyped {
			return splitList(text), nil
		}
		return nil, fmt.Errorf("must be a list, not %s; write [%s]", describe(tag), listed(text))
	}
	return n.parseBasic(text, tag, base)
}

func (n *node) parseBasic(text, tag, base string) (any, error) {
	switch n.typ.Kind() {
	case reflect.String:
		if tag != tagString && tag != untyped {
			return nil, fmt.Errorf("must be text, not %s; quote it: %q", describe(tag), text)
		}
		if n.path && text != "" && !filepath.IsAbs(text) {
			text = filepath.Join(base, text)
		}
		return text, nil
	case reflect.Bool:
		lower := strings.ToLower(text)
		if (tag == tagBool || tag == untyped) && (lower == "true" || lower == "false") {
			return lower == "true", nil
		}
		return nil, fmt.Errorf("must be true or false, not %s", quote(text, tag))
	case reflect.Int:
		v, err := strconv.Atoi(text)
		if (tag == tagInt || tag == untyped) && err == nil {
			return v, nil
		}
		return nil, fmt.Errorf("must be a whole number, not %s", quote(text, tag))
	}
	return nil, fmt.Errorf("a value of type %s cannot be configured", n.typ)
}

var bareNumber = regexp.MustCompile(`^[+-]?[0-9]+(\.[0-9]*)?$`)

// parseDuration insists on a unit, even for zero.
func parseDuration(text string) (time.Duration, error) {
	if bareNumber.MatchString(text) {
		return 0, fmt.Errorf(`duration %s has no unit; write "%ss" for seconds or "%sms" for milliseconds`, text, text, text)
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf(`%q is not a duration such as "500ms", "30s" or "1m30s"`, text)
	}
	return d, nil
}

// splitList splits at commas; the empty text is the empty list.
func splitList(text string) []string {
	if strings.TrimSpace(text) == "" {
		return []string{}
	}
	return lo.Map(strings.Split(text, ","), func(s string, _ int) string { return strings.TrimSpace(s) })
}

// quote shows text as it was written: in quotes unless it stood for something else.
func quote(text, tag string) string {
	if tag == tagString || tag == untyped || !printable(text) {
		return strconv.Quote(text)
	}
	return text
}

// listed is text as the element of a list.
func listed(text string) string { return quote(text, tagInt) }

// describe names what a YAML tag stands for.
func describe(tag string) string {
	switch tag {
	case tagString, tagTime:
		return "text"
	case tagInt, tagFloat:
		return "a number"
	case tagBool:
		return "true or false"
	case tagNull:
		return "nothing"
	case tagMapping:
		return "a mapping"
	case tagList:
		return "a list"
	}
	return "a value tagged " + tag
}

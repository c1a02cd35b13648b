package foreign

import (
	"bytes"
	"strings"
)

// element is an element of NCCL's topology XML.
type element struct {
	name     string
	attrs    map[string]string
	parent   *element
	children []*element
	closed   bool
}

// The elements that count. Texts hold others: of newer versions, and what looks like one.
var elements = map[string]bool{"system": true, "cpu": true, "pci": true, "gpu": true, "nvlink": true, "xgmi": true, "c2c": true, "nic": true, "net": true}

// readElements finds the elements of a text; the result has no name. encoding/xml is of no help: it stops at the first
// mistake, and texts are cut, quoted and have log lines between the tags.
func readElements(text []byte) *element {
	root := &element{}
	for at, i, depth := root, 0, 0; depth <= maxDepth; {
		open := bytes.IndexByte(text[i:], '<')
		if open < 0 {
			return root
		}
		i += open + 1
		rest := text[i:]
		if bytes.HasPrefix(rest, []byte("!--")) {
			end := bytes.Index(rest, []byte("-->"))
			if end < 0 {
				return root
			}
			i += end
			continue
		}
		name, closing := tagName(rest)
		switch {
		case !elements[name]:
		case closing:
			at = at.end(name)
			depth = at.depth()
		default:
			e := &element{name: name, parent: at}
			n, whole, empty := e.attributes(rest[len(name):])
			if !whole && len(e.attrs) == 0 {
				return root // cut in the tag
			}
			at.children = append(at.children, e)
			if e.closed = empty; !empty {
				at = e
				depth++
			}
			i += len(name) + n
			if !whole {
				e.closed = false
				return root
			}
		}
	}
	return root
}

func (e *element) depth() int {
	n := 0
	for ; e.parent != nil; e = e.parent {
		n++
	}
	return n
}

// tagName is the name that a tag begins with.
func tagName(s []byte) (name string, closing bool) {
	if len(s) > 0 && s[0] == '/' {
		s, closing = s[1:], true
	}
	n := 0
	for n < len(s) && n < 10 && (s[n] >= 'a' && s[n] <= 'z' || s[n] >= '0' && s[n] <= '9') {
		n++
	}
	if n < len(s) && (s[n] == '_' || s[n] == '-') {
		return "", closing // a longer name
	}
	return string(s[:n]), closing
}

// end closes the innermost open element of a name and is what goes on after it.
func (e *element) end(name string) *element {
	for o := e; o.parent != nil; o = o.parent {
		if o.name == name {
			for c := e; c != o; c = c.parent {
				c.closed = true // its own end tag is lost
			}
			o.closed = true
			return o.parent
		}
	}
	return e
}

// attributes reads the attributes of a tag; n is how many bytes it takes, whole whether its end was found.
func (e *element) attributes(s []byte) (n int, whole, empty bool) {
	e.attrs = map[string]string{}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '>':
			if quoteMark(s, i) {
				continue
			}
			return i + 1, true, i > 0 && s[i-1] == '/'
		case '<':
			return i, false, false
		case '"', '\'':
			end := bytes.IndexByte(s[i+1:], c)
			if end < 0 || end > 300 {
				return i, false, false
			}
			key := i
			for key > 0 && s[key-1] == '=' || key > 0 && s[key-1] == ' ' {
				key--
			}
			start := key
			for start > 0 && (s[start-1] >= 'a' && s[start-1] <= 'z' || s[start-1] == '_') {
				start--
			}
			if start < key && len(e.attrs) < 40 {
				e.attrs[string(s[start:key])] = strings.Join(strings.Fields(string(s[i+1:i+1+end])), "") // a line end may have broken it
			}
			i += end + 1
		}
	}
	return len(s), false, false
}

// quoteMark reports whether the sign at i begins a line within a tag, before more attributes: somebody quoted the text.
func quoteMark(s []byte, i int) bool {
	before, after := bytes.TrimRight(s[:i], "> "), bytes.TrimLeft(s[i:], "> ")
	word := bytes.IndexFunc(after, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') })
	return len(before) > 0 && before[len(before)-1] == '\n' && word > 0 && after[word] == '='
}

// all are the elements of a name below this one, in the order of the text.
func (e *element) all(name string) []*element {
	var found []*element
	for _, c := range e.children {
		if c.name == name {
			found = append(found, c)
		}
		found = append(found, c.all(name)...)
	}
	return found
}

// up is the nearest element of a name above this one; nil if there is none.
func (e *element) up(name string) *element {
	for o := e.parent; o != nil; o = o.parent {
		if o.name == name {
			return o
		}
	}
	return nil
}

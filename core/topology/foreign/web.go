package foreign

import (
	"bytes"
	"strconv"
	"strings"
)

// entities are the HTML entities that texts hold.
var entities = map[string]string{
	"amp": "&", "lt": "<", "gt": ">", "quot": `"`, "apos": "'", "nbsp": " ", "Tab": "\t", "tab": "\t", "NewLine": "\n",
	"ensp": " ", "emsp": " ", "ndash": "-", "mdash": "-", "minus": "-", "vert": "|", "lowbar": "_",
}

// entity decodes an HTML entity, also one that was encoded several times.
func entity(rest []byte) (string, int) {
	s, n := entityOnce(rest)
	for range 3 {
		if s != "&" || n == 1 {
			break
		}
		more, m := entityOnce(append([]byte{'&'}, rest[n:min(len(rest), n+12)]...))
		if m == 1 {
			break
		}
		s, n = more, n+m-1
	}
	return s, n
}

func entityOnce(rest []byte) (string, int) {
	end := bytes.IndexByte(rest[:min(len(rest), 12)], ';')
	if end < 2 {
		return "&", 1
	}
	s, ok := entities[string(rest[1:end])]
	if digits, numeric := strings.CutPrefix(string(rest[1:end]), "#"); numeric {
		base := 10
		if strings.HasPrefix(strings.ToLower(digits), "x") {
			digits, base = digits[1:], 16
		}
		if v, err := strconv.ParseUint(digits, base, 21); err == nil && v >= '\t' {
			s, ok = plain(rune(v), []byte(string(rune(v)))), true
		}
	}
	if !ok {
		return "&", 1
	}
	return s, end + 1
}

// markup says what the tags of web pages stand for. Tags with other names are left alone: XML is a format.
var markup = map[string]string{
	"br": "\n", "p": "\n", "div": "\n", "tr": "\n", "pre": "\n", "table": "\n", "tbody": "\n", "thead": "\n", "li": "\n",
	"details": "\n", "summary": "\n", "td": "\t", "th": "\t",
	"span": "", "code": "", "b": "", "i": "", "em": "", "strong": "", "font": "", "samp": "", "tt": "", "kbd": "", "u": "",
}

func tag(rest []byte) (string, int) {
	end := bytes.IndexByte(rest[:min(len(rest), 200)], '>')
	if end < 2 {
		return "<", 1
	}
	name := strings.TrimPrefix(string(rest[1:end]), "/")
	closing := len(name) < end-1
	if cut := strings.IndexAny(name, " \t/"); cut >= 0 {
		name = name[:cut]
	}
	s, ok := markup[strings.ToLower(name)]
	if !ok {
		return "<", 1
	}
	if closing && s == "\t" {
		s = "" // the opening tag has separated the cells
	}
	return s, end + 1
}

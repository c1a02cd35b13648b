package foreign_test

import (
	"encoding/json"
	"fmt"
	"html"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/topology/foreign"
)

// manner is one way in which texts come out of terminals, logs and web pages.
type manner struct {
	name string
	do   func(string) string
}

func prefix(p string) func(string) string {
	return eachLine(func(l string) string { return p + l })
}

// eachLine changes every line; a last line end stays.
func eachLine(f func(string) string) func(string) string {
	return func(s string) string {
		body, end := strings.CutSuffix(s, "\n")
		lines := strings.Split(body, "\n")
		for i := range lines {
			lines[i] = f(lines[i])
		}
		if s = strings.Join(lines, "\n"); end {
			s += "\n"
		}
		return s
	}
}

func replace(from, to string) func(string) string {
	return func(s string) string { return strings.ReplaceAll(s, from, to) }
}

func then(fs ...func(string) string) func(string) string {
	return func(s string) string {
		for _, f := range fs {
			s = f(s)
		}
		return s
	}
}

// expand replaces tabs by blanks as a terminal shows them.
func expand(s string) string {
	return eachLine(func(l string) string {
		var b strings.Builder
		col := 0
		for _, c := range l {
			if c == '\t' {
				n := 8 - col%8
				b.WriteString(strings.Repeat(" ", n))
				col += n
				continue
			}
			b.WriteRune(c)
			col++
		}
		return strings.TrimRight(b.String(), " ")
	})(s)
}

// wrap breaks lines at a width, in the middle of words or at blanks.
func wrap(width int, atBlank bool) func(string) string {
	return eachLine(func(l string) string {
		var out []string
		for len(l) > width {
			cut := width
			if blank := strings.LastIndex(l[:width], " "); atBlank && blank > 0 {
				cut = blank + 1
			}
			out, l = append(out, l[:cut]), l[cut:]
		}
		return strings.Join(append(out, l), "\n")
	})
}

// eachDevice changes the names of GPUs.
func eachDevice(format string) func(string) string {
	return func(s string) string {
		for i := 31; i >= 0; i-- {
			s = strings.ReplaceAll(s, fmt.Sprintf("GPU%d\t", i), fmt.Sprintf(format, i)+"\t")
		}
		return s
	}
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return `{"level":"info","msg":` + string(b) + "}\n"
}

func dockerJSON(s string) string {
	return eachLine(func(l string) string {
		b, _ := json.Marshal(l + "\n")
		return `{"log":` + string(b) + `,"stream":"stdout","time":"2026-11-29T12:00:01.123456789Z"}`
	})(s)
}

// always are the manners that lose nothing.
var always = []manner{
	{"CRLF", replace("\n", "\r\n")},
	{"non-breaking spaces", replace(" ", "\u00a0")},
	{"zero-width and byte order mark", func(s string) string { return "\ufeff" + strings.ReplaceAll(s, "\n", "\n\u200b") }},
	{"quoted", prefix("> ")},
	{"quoted twice", prefix(">> ")},
	{"quoted without blank", prefix(">")},
	{"behind a bar", prefix("| ")},
	{"box", prefix("│ ")},
	{"commented", prefix("# ")},
	{"commented in C", prefix("// ")},
	{"list item", prefix("- ")},
	{"code fence", func(s string) string { return "Output:\n```text\n" + s + "```\nAny idea?\n" }},
	{"tilde fence in a quote", func(s string) string { return prefix("> ")("~~~\n" + s + "~~~\n") }},
	{"indented by 4", prefix("    ")},
	{"indented by a tab", prefix("\t")},
	{"syslog", prefix("Nov 29 12:00:01 node7 trainer[1234]: ")},
	{"journal", prefix("Nov 29 12:00:01.123456 node7 python3[77]: ")},
	{"kernel stamp", prefix("[   12.345678] ")},
	{"docker compose", prefix("worker-1  | ")},
	{"docker compose bar", prefix("gpu0-worker |")},
	{"kubectl", prefix("[pod/trainer-0/main] ")},
	{"ISO stamp", prefix("2026-11-29T12:00:01.123456Z ")},
	{"stamp", prefix("2026-11-29 12:00:01,123 ")},
	{"stamp in brackets", prefix("[2026-11-29 12:00:01] ")},
	{"mpirun", prefix("[1,0]<stdout>:")},
	{"srun", prefix("0: ")},
	{"pdsh", prefix("node01: ")},
	{"ray", prefix("(EngineCore_0 pid=123) ")},
	{"rank", prefix("[rank0]: ")},
	{"vLLM log", prefix("INFO 11-29 12:00:01 [collect_env.py:123] ")},
	{"python log", prefix("2026-11-29 12:00:01,123 - INFO - ")},
	{"grep -n", func(s string) string {
		n := 10
		return eachLine(func(l string) string { n++; return fmt.Sprintf("%d:%s", n, l) })(s)
	}},
	{"numbered", func(s string) string {
		n := 0
		return eachLine(func(l string) string { n++; return fmt.Sprintf("%6d\t%s", n, l) })(s)
	}},
	{"diff", prefix("+")},
	{"two prefixes", prefix("2026-11-29T12:00:01Z stdout F worker-1  | > ")},
	{"colour at line starts", prefix("\x1b[32m")},
	{"coloured names", eachDevice("\x1b[1;32mGPU%d\x1b[0m")},
	{"coloured names without escape", eachDevice("[1;32mGPU%d[0m")},
	{"coloured names, spelled", eachDevice(`\u001b[1mGPU%d\u001b[0m`)},
	{"coloured names, caret", eachDevice("^[[1mGPU%d^[[0m")},
	{"bold names", eachDevice("**GPU%d**")},
	{"code names", eachDevice("`GPU%d`")},
	{"HTML", func(s string) string { return "<pre><code>" + html.EscapeString(s) + "</code></pre>\n" }},
	{"HTML, escaped twice", func(s string) string { return html.EscapeString(html.EscapeString(s)) }},
	{"HTML tabs", replace("\t", "&#9;")},
	{"HTML blanks", replace(" ", "&nbsp;")},
	{"HTML line breaks", replace("\n", "<br>\n")},
	{"JSON log line", quoted},
	{"docker JSON log", dockerJSON},
	{"trailing blanks", eachLine(func(l string) string { return l + "      " })},
	{"trailing tab", eachLine(func(l string) string { return l + "\t" })},
	{"double spaced", replace("\n", "\n\n")},
	{"no last line end", func(s string) string { return strings.TrimRight(s, "\n ") + " " }},
	{"prompt and prose", func(s string) string {
		return "Hi, GPU0 and GPU1 hang. topology below (GPU0 GPU1 are on one switch):\n(base) root@host:~# nvidia-smi\n" + s +
			"\nroot@host:~# exit\nSo GPU0 GPU1 are OK, GPU2 is not.\n"
	}},
	{"issue template", func(s string) string {
		return "### Your current environment\n<details>\n<summary>env</summary>\n\n```text\nGPU models and configuration:\nGPU 0: NVIDIA X\nNvidia driver version: 570.86.10\n" + s + "```\n</details>\n"
	}},
}

// squeezing are the manners that lose the places of empty cells.
var squeezing = []manner{
	{"expanded tabs", expand},
	{"expanded and quoted", then(expand, prefix("> "))},
	{"tabs as 4 blanks", replace("\t", "    ")},
	{"tabs as 1 blank", replace("\t", " ")},
	{"squeezed", func(s string) string {
		return eachLine(func(l string) string { return strings.Join(strings.Fields(l), " ") })(s)
	}},
	{"trimmed", func(s string) string { return eachLine(strings.TrimSpace)(s) }},
	{"flattened", func(s string) string { return strings.Join(strings.Fields(s), " ") }},
	{"flattened with line ends spelled", then(replace("\t", " "), replace("\n", `\n`))},
	{"wrapped at 120", then(expand, wrap(120, false))},
	{"wrapped at 80", then(expand, wrap(80, false))},
	{"wrapped at 79", then(expand, wrap(79, false))},
	{"wrapped at 64", then(expand, wrap(64, false))},
	{"wrapped at 41", then(expand, wrap(41, false))},
	{"wrapped at blanks, 80", then(expand, wrap(80, true))},
	{"wrapped at blanks, 40", then(expand, wrap(40, true))},
	{"wrapped and quoted", then(expand, wrap(80, true), prefix("> "))},
	{"wrapped and logged", then(expand, wrap(80, true), prefix("Nov 29 12:00:01 node7 trainer[1234]: "))},
	{"commas", func(s string) string {
		return eachLine(func(l string) string {
			cells := strings.Split(l, "\t")
			for i, c := range cells {
				if strings.Contains(c, ",") {
					cells[i] = `"` + c + `"`
				}
			}
			return strings.Join(cells, ",")
		})(s)
	}},
}

// facts are what every manner must leave.
type facts struct {
	Formats            []string
	Devices, Links     string
	Peers              string
	Full, Worst, Group string
	Complete           foreign.Completeness
}

func factsOf(r foreign.Reading, affinity bool) facts {
	devices := ""
	for _, d := range r.Graph.Devices {
		devices += fmt.Sprintf("%d %s", d.Index, d.PCIBusID)
		if affinity {
			devices += fmt.Sprintf(" %q %q", d.CPUAffinity, d.NUMA)
		}
		devices += "\n"
	}
	links := ""
	for _, row := range r.Links() {
		links += fmt.Sprintln(row)
	}
	return facts{
		r.Formats, devices, links, fmt.Sprint(r.Graph.Peers), r.FullNVLink().String(), r.Worst().String(), groups(r), r.Complete,
	}
}

func TestMangled(t *testing.T) {
	for _, part := range []string{"topo", "other", "nccl-xml"} {
		for _, row := range index(t, part) {
			b := text(t, part, row["file"])
			want := read(t, b)
			for _, m := range append(always[:len(always):len(always)], squeezing...) {
				t.Run(row["id"]+" "+m.name, func(t *testing.T) {
					mangled := m.do(string(b))
					got, err := foreign.Read([]byte(mangled))
					if err != nil {
						t.Fatalf("%v\n%.3000s", err, mangled)
					}
					if diff := cmp.Diff(factsOf(want, true), factsOf(got, true)); diff != "" {
						t.Errorf("(-want +got):\n%s\n%.3000s", diff, mangled)
					}
				})
			}
		}
	}
}

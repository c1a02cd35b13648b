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
	{"cat -A", func(s string) string {
		return eachLine(func(l string) string { return strings.ReplaceAll(l, "\t", "^I") + "$" })(s)
	}},
	{"quoted-printable", func(s string) string {
		return strings.NewReplacer("\t", "=09", "=", "=3D", "SYS\t", "SYS=\n=09").Replace(s)
	}},
	{"after nvidia-smi's table", func(s string) string { return nvidiaSMI + s }},
	{"before nvidia-smi's table", func(s string) string { return s + "\n" + nvidiaSMI }},
	{"visible tabs", replace("\t", "→")},
	{"issue template", func(s string) string {
		return "### Your current environment\n<details>\n<summary>env</summary>\n\n```text\nGPU models and configuration:\nGPU 0: NVIDIA X\nNvidia driver version: 570.86.10\n" + s + "```\n</details>\n"
	}},
}

// nvidiaSMI is what people paste beside the topology.
const nvidiaSMI = `Sun Nov 29 12:00:01 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 570.86.10              Driver Version: 570.86.10      CUDA Version: 12.8     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:17:00.0 Off |                    0 |
| N/A   30C    P0             70W /  700W |       1MiB /  81559MiB |      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|    0   N/A  N/A          123456      C   python                                 500MiB |
+-----------------------------------------------------------------------------------------+
`

// table makes a table of the lines with tabs.
func table(begin, between, end string) func(string) string {
	return eachLine(func(l string) string {
		if !strings.Contains(l, "\t") {
			return l
		}
		return begin + strings.Join(strings.Split(strings.TrimRight(l, "\t "), "\t"), between) + end
	})
}

// big is a machine of 16 GPUs and 12 NICs, with both matrices.
func big() string {
	var b, p strings.Builder
	name := func(i int) string {
		if i < 16 {
			return fmt.Sprintf("GPU%d", i)
		}
		return fmt.Sprintf("NIC%d", i-16)
	}
	b.WriteString("$ nvidia-smi topo -m\n")
	p.WriteString("$ nvidia-smi topo -p2p r\n ")
	for i := range 28 {
		b.WriteString("\t" + name(i))
		if i < 16 {
			p.WriteString("\t" + name(i))
		}
	}
	b.WriteString("\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n")
	p.WriteString("\t\n")
	for a := range 28 {
		b.WriteString(name(a))
		if a < 16 {
			p.WriteString(" " + name(a))
		}
		for c := range 28 {
			near := a/4 == c/4
			switch {
			case a == c:
				b.WriteString("\t X ")
			case near && a < 16:
				b.WriteString("\tNV12")
			case near:
				b.WriteString("\tPIX")
			case a%2 == c%2:
				b.WriteString("\tNODE")
			default:
				b.WriteString("\tSYS")
			}
			if a < 16 && c < 16 {
				p.WriteString("\t" + map[bool]string{true: "X", false: map[bool]string{true: "OK", false: "TNS"}[near]}[a == c])
			}
		}
		if a < 16 {
			fmt.Fprintf(&b, "\t%d-%d,%d-%d\t%d\t\tN/A", a*16, a*16+15, 256+a*16, 271+a*16, a/8)
			p.WriteString("\t\n")
		}
		b.WriteString("\n")
	}
	return b.String() + "\nLegend:\n\n  X    = Self\n  SYS  = Connection\n  NODE = Connection\n  PIX  = Connection\n  NV#  = Connection\n\nNIC Legend:\n\n  NIC0: mlx5_0\n  NIC11: mlx5_11\n\n" + p.String() + "\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n"
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
	{"wrapped in words and quoted", then(expand, wrap(80, false), prefix("> "))},
	{"wrapped in words and behind a bar", then(expand, wrap(79, false), prefix("| "))},
	{"wrapped in words and indented", then(expand, wrap(100, false), prefix("    "))},
	{"quoted in a list, with CRLF", then(prefix("  > "), replace("\n", "\r\n"))},
	{"JSON in JSON", then(quoted, quoted)},
	{"wrapped and logged", then(expand, wrap(80, true), prefix("Nov 29 12:00:01 node7 trainer[1234]: "))},
	{"a cell a line", replace("\t", "\n\t")},
	{"Confluence table", table("<tr><td><p>", "</p></td><td class='x'><p>", "</p></td></tr>")},
	{"list of strings", func(s string) string {
		return "\"stdout_lines\": [\n" + eachLine(func(l string) string { return fmt.Sprintf("    %q,", l) })(s) + "]\n"
	}},
	{"Python bytes", func(s string) string { return "b'" + strings.Trim(fmt.Sprintf("%q", s), `"`) + "'\n" }},
	{"UTF-16", func(s string) string {
		out := "\xff\xfe"
		for _, c := range []byte(s) {
			out += string([]byte{c, 0})
		}
		return out
	}},
	{"Markdown table", table("| ", " | ", " |")},
	{"HTML table", table("<tr><td>", "</td><td>", "</td></tr>")},
	{"box", table("│ ", " │ ", " │")},
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

func factsOf(r foreign.Reading) facts {
	devices := ""
	for _, d := range r.Graph.Devices {
		devices += fmt.Sprintf("%d %s %q %q\n", d.Index, d.PCIBusID, d.CPUAffinity, d.NUMA)
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
	mangle := func(t *testing.T, id, b string) {
		want := read(t, []byte(b))
		for _, m := range append(always[:len(always):len(always)], squeezing...) {
			t.Run(id+" "+m.name, func(t *testing.T) {
				mangled := m.do(b)
				got, err := foreign.Read([]byte(mangled))
				if err != nil {
					t.Fatalf("%v\n%.3000s", err, mangled)
				}
				if diff := cmp.Diff(factsOf(want), factsOf(got)); diff != "" {
					t.Errorf("(-want +got):\n%s\n%.3000s", diff, mangled)
				}
			})
		}
	}
	r := read(t, []byte(big()))
	if len(r.Graph.Devices) != 16 || len(r.NICs) != 12 || groups(r) != "0,1,2,3;4,5,6,7;8,9,10,11;12,13,14,15" || r.Graph.Devices[15].CPUAffinity != "240-255,496-511" || r.Graph.Peers[15][12].Read != "OK" {
		t.Errorf("%d GPUs, %d NICs, groups %s, GPU15 %+v", len(r.Graph.Devices), len(r.NICs), groups(r), r.Graph.Devices[15])
	}
	mangle(t, "big", big())
	for _, part := range []string{"topo", "other", "nccl-xml"} {
		for _, row := range index(t, part) {
			mangle(t, row["id"], string(text(t, part, row["file"])))
		}
	}
}

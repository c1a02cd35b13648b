package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const printed = `group.deadline = 5s                      # --deadline
group.slow_after = 1s                    # default
group.join_deadline = 1m                 # default
group.deterministic = false              # default
group.share_devices = false              # default
group.unabortable_kernels = false        # default
cascade.order = [a, b]                   # weir.yaml:2
cascade.disabled = []                    # default
cascade.fallback.cuda = nccl             # default
cascade.fallback.host = ""               # WEIR_CASCADE__FALLBACK__HOST
plugin_dir = /opt/weir/bin/plugins       # default
plugins.x.path = "/p/x y"                # weir.yaml:5
plugins.x.sha256 = ""                    # default
plugins.x.tls = true                     # default
plugins.x.env.A = "# no comment"         # weir.yaml:6
plugins.x.settings.a.b = [1,{"c":null}]  # weir.yaml:8
plugins.x.settings.n = 2.5               # weir.yaml:9
plugins.x.settings.s = "2.5"             # weir.yaml:10
plugins.x.disabled = false               # default
`

func TestPrint(t *testing.T) {
	l := mustLoad(t, `cascade:
  order: [a, b]
plugins:
  x:
    path: /p/x y
    env: {A: "# no comment"}
    settings:
      a: {b: [1, {c: null}]}
      n: 2.5
      s: "2.5"
`, []string{"WEIR_CASCADE__FALLBACK__HOST="}, "--deadline=5s")
	var out bytes.Buffer
	if err := l.Print(&out); err != nil {
		t.Fatal(err)
	}
	got, rest, _ := strings.Cut(out.String(), "deadlines.start")
	if diff := cmp.Diff(printed, got); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(rest, "shared.max_bytes = 4GiB                  # default\n") {
		t.Errorf("the rest is\n%s", rest)
	}

	out.Reset()
	if err := l.PrintJSON(&out); err != nil {
		t.Fatal(err)
	}
	var entries []Entry
	if err := json.Unmarshal(out.Bytes(), &entries); err != nil {
		t.Fatal(err)
	}
	if n := len(l.Entries()); len(entries) != n {
		t.Errorf("%d entries, want %d", len(entries), n)
	}
	if diff := cmp.Diff([]Entry{
		{"group.deadline", "5s", "--deadline"},
		{"group.slow_after", "1s", "default"},
		{"group.join_deadline", "1m", "default"},
		{"group.deterministic", false, "default"},
		{"group.share_devices", false, "default"},
		{"group.unabortable_kernels", false, "default"},
		{"cascade.order", []any{"a", "b"}, "weir.yaml:2"},
		{"cascade.disabled", []any{}, "default"},
	}, entries[:8]); diff != "" {
		t.Error(diff)
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestPrintReportsWriteErrors(t *testing.T) {
	l := mustLoad(t, "", nil)
	if l.Print(brokenPipe{}) == nil || l.PrintJSON(brokenPipe{}) == nil {
		t.Error("a failed write is not reported")
	}
}

func TestShortDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Minute: "1m", time.Hour: "1h", 90 * time.Second: "1m30s", 10 * time.Second: "10s", 70 * time.Minute: "1h10m",
		10 * time.Minute: "10m", 20 * time.Hour: "20h", 500 * time.Millisecond: "500ms", time.Hour + 5*time.Second: "1h0m5s",
	} {
		got := text(d)
		if back, err := time.ParseDuration(got); got != want || err != nil || back != d {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseSample(t *testing.T) {
	want := cell{2, 1024, peerType}
	got, err := parseSample([]byte("a warning of the launcher\n{\"bytes\":1024,\"iterations\":10,\"wrong\":0,\"trials\":[1.5,2]}\n"), want)
	if err != nil || cmp.Diff(sample{Bytes: 1024, Trials: []float64{1.5, 2}}, got) != "" {
		t.Errorf("%+v, %v", got, err)
	}
	for text, why := range map[string]string{
		"":                                      "no line of JSON",
		"only a warning\n":                      "no line of JSON",
		"{\"bytes\":1024,\"wrong\"":             "output \"{",
		`{"bytes":8,"trials":[1]}`:              "it measured 8 bytes, not 1024",
		`{"bytes":1024}`:                        "no trials",
		`{"bytes":1024,"trials":[1],"wrong":3}`: "3 wrong elements",
	} {
		if _, err := parseSample([]byte(text), want); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v, want %q", text, err, why)
		}
	}
}

func TestParseWeir(t *testing.T) {
	want := cell{2, 8, peerType}
	text := `{"version":1,"results":[{"size":8,"backend":"shm-flat","out_of_place":{"time":0.5,"nwrong":0,"trials":[0.5,0.6]},"in_place":null}],"out_of_bounds":0}`
	got, served, err := parseWeir([]byte(text), want)
	if err != nil || served != "shm-flat" || cmp.Diff([]float64{0.5, 0.6}, got.Trials) != "" {
		t.Errorf("%+v, %q, %v", got, served, err)
	}
	for text, why := range map[string]string{
		"weir: no": "output of weir",
		"{}":       "measured 0 sizes",
		`{"results":[{"size":8,"out_of_place":null}]}`:                             "want one out of place",
		`{"results":[{"size":8,"out_of_place":{"trials":[1]}}],"out_of_bounds":2}`: "2 wrong elements",
	} {
		if _, _, err := parseWeir([]byte(text), want); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v, want %q", text, err, why)
		}
	}
}

func TestStart(t *testing.T) {
	sh := func(script string, cpu int) command {
		return command{argv: []string{"sh", "-c", script}, env: []string{"NAME=value"}, cpu: cpu}
	}
	out, err := start(t.Context(), []command{sh("echo $NAME", -1), sh("echo not this", -1)}, time.Minute)
	if err != nil || string(out) != "value\n" {
		t.Errorf("%q, %v", out, err)
	}
	out, err = start(t.Context(), []command{sh("grep Cpus_allowed_list /proc/self/status", 0)}, time.Minute)
	if err != nil || strings.Join(strings.Fields(string(out)), " ") != "Cpus_allowed_list: 0" {
		t.Errorf("on one core: %q, %v", out, err)
	}
	// One that fails ends the others.
	_, err = start(t.Context(), []command{sh("sleep 600", -1), sh("echo first >&2; echo last words >&2; exit 3", -1)}, time.Minute)
	if err == nil || !strings.HasSuffix(err.Error(), "exit status 3: last words") {
		t.Errorf("%v", err)
	}
	_, err = start(t.Context(), []command{sh("sleep 600 & sleep 600", -1)}, 50*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "not done after 50ms") {
		t.Errorf("%v", err)
	}
	if _, err = start(t.Context(), []command{{argv: []string{"/nowhere"}, cpu: -1}}, time.Minute); err == nil {
		t.Error("a program that is not there, want an error")
	}
}

// TestMissingPeersAreNamed: where nothing is installed nothing is found, and each says so.
func TestMissingPeersAreNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	found, missing := findPeers(context.Background(), t.TempDir(), "no-python", 2)
	if len(found) != 0 || len(missing) != 4 {
		t.Fatalf("%v, %v", found, missing)
	}
	for i, name := range []string{"Open MPI", "MPICH", "Gloo", "PyTorch"} {
		if !strings.HasPrefix(missing[i], name) {
			t.Errorf("%q, want %s", missing[i], name)
		}
	}
}

func TestParseList(t *testing.T) {
	got, err := parseList("sizes", "8, 14K,1M")
	if err != nil || cmp.Diff([]int64{8, 14 << 10, 1 << 20}, got) != "" {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"", "0", "8,,9", "x"} {
		if _, err := parseList("sizes", text); err == nil || !strings.Contains(err.Error(), "-sizes") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

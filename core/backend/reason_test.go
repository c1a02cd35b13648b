package backend_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-project/weir/core/backend"
)

func TestReasonString(t *testing.T) {
	for want, r := range map[string]backend.Reason{
		"MEMORY: host, needs cuda":     backend.Because(backend.MemoryKind, "host", "cuda"),
		"SCOPE: SYS":                   backend.Because(backend.ScopeCode, "SYS", ""),
		"VERSION: needs 550":           backend.Because(backend.Version, "", "550"),
		"DISABLED_BY_USER":             backend.Because(backend.DisabledByUser, "", ""),
		"ARCH on rank 0: 8.0":          {Code: backend.Arch, Observed: "8.0"},
		"INIT_FAILED on rank 3 (full)": {Code: backend.InitFailed, Rank: 3, Text: "full"},
	} {
		if got := r.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestReasonFor(t *testing.T) {
	fault := &backend.Fault{Code: backend.PluginCrashed, Rank: backend.AnyRank, Err: errors.New("exit status 2")}
	late := fmt.Errorf("ask shm: %w", context.DeadlineExceeded)
	for _, c := range []struct {
		err  error
		want backend.Reason
	}{
		{errors.New("odd"), backend.Reason{Code: backend.Other, Rank: backend.AnyRank, Text: "odd"}},
		{late, backend.Reason{Code: backend.Timeout, Rank: backend.AnyRank, Text: late.Error()}},
		{fmt.Errorf("ask shm: %w", fault), backend.Reason{Code: backend.PluginCrashed, Rank: backend.AnyRank, Text: "ask shm: exit status 2"}},
		{&backend.Fault{Code: backend.InitFailed, Rank: 2, Err: late}, backend.Reason{Code: backend.InitFailed, Rank: 2, Text: late.Error()}},
	} {
		if diff := cmp.Diff(c.want, backend.ReasonFor(c.err)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.err, diff)
		}
	}
	if !errors.Is(&backend.Fault{Err: late}, context.DeadlineExceeded) {
		t.Error("a fault hides its cause")
	}
}

// TestReasonsAreDocumented holds docs/reasons.md to the list of codes: a section for each, in their order, which opens
// with its meaning.
func TestReasonsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/reasons.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := regexp.MustCompile("(?m)^### `?([^`\n]+)`?$").FindAllSubmatchIndex(text, -1)
	var documented []string
	for i, at := range sections {
		code := string(text[at[2]:at[3]])
		documented = append(documented, code)
		end := len(text)
		if i+1 < len(sections) {
			end = sections[i+1][0]
		}
		meaning := backend.Code(code).Meaning()
		first, advice, _ := strings.Cut(strings.TrimSpace(string(text[at[1]:end])), "\n\n")
		if !strings.EqualFold(strings.Join(strings.Fields(first), " "), meaning+".") {
			t.Errorf("%s: the section opens with %q, the meaning is %q", code, first, meaning)
		}
		if len(strings.Fields(advice)) < 8 {
			t.Errorf("%s: the section does not say what to do", code)
		}
	}
	var codes []string
	for _, c := range backend.Codes() {
		codes = append(codes, string(c))
		if c.Meaning() == "" {
			t.Errorf("%s has no meaning", c)
		}
	}
	if diff := cmp.Diff(codes, documented); diff != "" {
		t.Errorf("codes and sections (-code +section):\n%s", diff)
	}
	if backend.Code("NOT_A_CODE").Meaning() != "" {
		t.Error("a code that does not exist has a meaning")
	}
}

package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/weir-project/weir/core/collective"
	"github.com/weir-project/weir/engine/agent"
)

func sampleGroup() agent.GroupStatus {
	now := time.Unix(1700000000, 0).UTC()
	return agent.GroupStatus{
		ID: "g1", Epoch: 3, Failed: "rank 1 has ended", Switch: &agent.SwitchStatus{Call: 7, Ranks: []int{1}},
		Ranks: []agent.RankStatus{{Rank: 0, PID: 4711, Calls: 9, Doing: "idle", Last: []agent.CallLog{
			{Number: 8, Class: collective.Class{}.String(), Bytes: 4, Backend: "shm-flat", Start: now, End: now.Add(time.Second)},
			{Number: 9, Class: collective.Class{}.String(), Start: now, Rejected: true},
		}}},
		Classes: []agent.ClassStatus{{Class: "c", Epoch: 3, Backends: []agent.Served{{Backend: "shm-flat", Serves: "all sizes"}, {Backend: "old"}}}},
	}
}

// wantPlain wants text that a terminal only shows.
func wantPlain(t *testing.T, text string) {
	t.Helper()
	if at := strings.IndexFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }); at >= 0 {
		t.Errorf("a control character at %d of %q", at, text)
	}
}

// FuzzDump reads and prints dumps that somebody has spoilt.
func FuzzDump(f *testing.F) {
	good, err := json.Marshal(sampleGroup())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add([]byte(`{"id":"\u001b[2J","ranks":[{"rank":-1,"last":[{"number":18446744073709551615,"start":"0000-01-01T00:00:00Z","end":"9999-12-31T23:59:59Z"}]}]}`))
	f.Add([]byte(`{"id":"g1","ranks":null,"classes":[{}]}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		g, err := parseDump(text)
		if err != nil {
			if g.ID != "" && json.Valid(text) && err.Error() == "" {
				t.Error("refused without words")
			}
			return
		}
		var b bytes.Buffer
		writeCalls(&b, g)
		wantPlain(t, b.String())
		if err := writeRuns(&b, []runStatus{{Groups: []agent.GroupStatus{g}}}); err != nil {
			t.Error(err)
		}
		wantPlain(t, b.String())
		kept, err := json.Marshal(g)
		if err != nil {
			t.Fatalf("what was read cannot be kept: %v", err)
		}
		if _, err := parseDump(kept); err != nil {
			t.Errorf("what was kept cannot be read: %v", err)
		}
	})
}

// FuzzControl sends an engine's control socket anything that HTTP lets through, and reads any bytes as an engine's answer.
func FuzzControl(f *testing.F) {
	f.Add([]byte("GET /status?calls=1 HTTP/1.1\r\nHost: weir\r\n\r\n"))
	f.Add([]byte("POST /plugins/reload?name=shm&sha256=%zz HTTP/1.1\r\nHost: weir\r\nContent-Length: 5\r\n\r\nname="))
	f.Add([]byte("DELETE /status HTTP/1.0\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{\"pid\":1,\"groups\":[]}"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		asked, reloads := 0, 0
		h := controlHandler(func(bool) runStatus { asked++; return runStatus{Groups: []agent.GroupStatus{sampleGroup()}} },
			func(_ context.Context, name, _ string) (reloaded, error) {
				reloads++
				if name == "" {
					return reloaded{}, errors.New("there is no plugin \"\"")
				}
				return reloaded{Plugin: name}, nil
			})
		if req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(data))); err == nil {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req)
			switch {
			case asked+reloads > 1:
				t.Errorf("%d and %d answers to one question", asked, reloads)
			case asked == 1 && (req.Method != http.MethodGet && req.Method != http.MethodHead || w.Code != http.StatusOK):
				t.Errorf("%s %s: %d", req.Method, req.URL, w.Code)
			case reloads == 1 && req.Method != http.MethodPost:
				t.Errorf("%s %s reloads a plugin", req.Method, req.URL)
			case asked+reloads == 0 && w.Code < 300:
				t.Errorf("%s %s: %d, and nothing was done", req.Method, req.URL, w.Code)
			}
		}
		res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(data)), nil)
		if err != nil {
			return
		}
		defer res.Body.Close()
		var s runStatus
		if decodeAnswer(res.Body, &s) != nil {
			return
		}
		var b bytes.Buffer
		if err := writeRuns(&b, []runStatus{s}); err != nil {
			t.Error(err)
		}
		wantPlain(t, b.String())
	})
}

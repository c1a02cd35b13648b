package pluginhost

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/weir-project/weir/tests/await"
)

// TestFileReplacedBeforeItRuns puts another file in the place of the one that was checked, right before it is started.
func TestFileReplacedBeforeItRuns(t *testing.T) {
	dir := t.TempDir()
	path, mark := filepath.Join(dir, "plugin"), filepath.Join(dir, "mark")
	text, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Skip("there is no /bin/true to copy")
	}
	if err := os.WriteFile(path, text, 0o755); err != nil {
		t.Fatal(err)
	}
	b, err := check(Spec{Name: "plugin", Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, []byte("#!/bin/sh\ntouch "+mark+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other, path); err != nil {
		t.Fatal(err)
	}
	p := newProcess(b, Options{}, slog.New(slog.DiscardHandler))
	link := filepath.Join(dir, "run")
	if err := os.Mkdir(link, 0o700); err != nil {
		t.Fatal(err)
	}
	p.dir = link
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	await.Receive(t, "it ends", p.done)
	if itself, failed := p.ended(); !itself || failed {
		t.Errorf("ended by itself %t, failed %t: it was not /bin/true", itself, failed)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the file that took its place was run")
	}
	if left, _ := os.ReadDir(link); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/samber/lo"

	"github.com/weir-project/weir/engine/launch"
)

// ask sends a question to the engine of a run's folder.
func ask(ctx context.Context, patience time.Duration, folder, method, path string, values url.Values, result any) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	w := watch{folder: folder, patience: patience}
	ctx, stop := w.over(ctx)
	defer stop()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return w.dial(ctx)
		},
	}}
	req, err := http.NewRequestWithContext(ctx, method, "http://weir"+path+"?"+values.Encode(), nil)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return w.explain(ctx, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(res.Body, 4096))
		return errors.New(cmp.Or(strings.TrimSpace(string(body)), res.Status))
	}
	if err := decodeAnswer(res.Body, result); err != nil {
		return w.explain(ctx, err)
	}
	return nil
}

// maxAnswer is the longest answer of an engine: a thousand groups of eight ranks with their last calls take a tenth of it.
const maxAnswer = 1 << 30

func decodeAnswer(body io.Reader, result any) error {
	if err := json.NewDecoder(io.LimitReader(body, maxAnswer)).Decode(result); err != nil {
		return fmt.Errorf("the engine's answer: %w", err)
	}
	return nil
}

// askedRun is an engine that runs, with its answer or why there is none.
type askedRun struct {
	folder string
	runStatus
	silent *silence
}

// engines are the running engines of this user, or the one whose process is named. An engine that is starting or ending is
// none, but an error.
func (a *app) engines(ctx context.Context, pid int, values url.Values) ([]askedRun, error) {
	folders := launch.Runs(a.getenv)
	all := make([]*askedRun, len(folders))
	errs := make([]error, len(folders))
	var wg sync.WaitGroup
	for i, folder := range folders {
		wg.Go(func() {
			r := askedRun{folder: folder}
			err := ask(ctx, controlPatience, folder, http.MethodGet, "/status", values, &r.runStatus)
			switch {
			case errors.As(err, &r.silent):
				r.PID = int(r.silent.process)
			case err != nil:
				errs[i] = err
				return
			}
			if pid == 0 || r.PID == pid {
				all[i] = &r
			}
		})
	}
	wg.Wait()
	return lo.FromSlicePtr(lo.Compact(all)), errors.Join(errs...)
}

// runs are what the running engines answer, or the one whose process is named. Of those that do not answer it says so, which is an
// error if no other does.
func (a *app) runs(ctx context.Context, pid int, calls bool) (found []runStatus, err error) {
	values := url.Values{}
	if calls {
		values.Set("calls", "1")
	}
	all, failed := a.engines(ctx, pid, values)
	var silent []error
	for _, r := range all {
		if r.silent != nil {
			silent = append(silent, r.silent)
			continue
		}
		found = append(found, r.runStatus)
	}
	switch {
	case len(found) == 0 && len(silent) > 0:
		return nil, errors.Join(silent...)
	case len(found) == 0 && pid != 0:
		return nil, errors.Join(failed, noProcess(pid))
	}
	for _, s := range silent {
		fmt.Fprintln(a.stderr, "weir:", s)
	}
	return found, nil
}

func noProcess(pid int) error {
	return fmt.Errorf("no engine of this user runs as process %d; weir status lists those that do", pid)
}

// oneRun is the folder of the one running engine, or of that which is a process.
func (a *app) oneRun(ctx context.Context, pid int) (folder string, err error) {
	found, failed := a.engines(ctx, pid, nil)
	switch {
	case len(found) == 1 && found[0].silent != nil:
		return "", found[0].silent
	case len(found) == 1:
		return found[0].folder, nil
	case len(found) > 1:
		pids := lo.Map(found, func(r askedRun, _ int) int { return r.PID })
		return "", fmt.Errorf("several engines run, as processes %v: name one with --pid", pids)
	case pid != 0:
		return "", errors.Join(failed, noProcess(pid))
	}
	return "", errors.New("no engine of this user runs")
}

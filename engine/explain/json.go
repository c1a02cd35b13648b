package explain

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/samber/lo"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/diagnose"
	"github.com/weir-project/weir/core/dispatch"
)

// JSON is an answer as programs read it, and as Diff compares it. Byte counts are inclusive; a max of null is no limit.
type JSON struct {
	Profile    string          `json:"profile"`
	Topology   *topologyJSON   `json:"topology,omitempty"`
	Group      groupJSON       `json:"group"`
	Request    requestJSON     `json:"request"`
	Model      *modelJSON      `json:"model,omitempty"`
	Chosen     []chosenJSON    `json:"chosen"`
	Sizes      []sizeJSON      `json:"sizes,omitempty"`
	Candidates []candidateJSON `json:"candidates"`
	Warnings   []string        `json:"warnings"`
	Diagnoses  []diagnosisJSON `json:"diagnoses"`
}

type topologyJSON struct {
	Source   string `json:"source"`
	Format   string `json:"format,omitempty"`
	Complete string `json:"complete"`
}

type groupJSON struct {
	WorldSize  int    `json:"world_size"`
	Worst      string `json:"worst"`
	FullNVLink string `json:"full_nvlink"`
	Devices    []int  `json:"devices,omitempty"`
	Hosts      int    `json:"hosts"`
	P2P        string `json:"p2p"`
	Multicast  string `json:"multicast"`
}

type requestJSON struct {
	Memory   string `json:"memory"`
	DataType string `json:"dtype"`
	Op       string `json:"op"`
	Captured bool   `json:"captured"`
	// Registered: older explanations do not have it.
	Registered bool `json:"registered,omitempty"`
}

type modelJSON struct {
	Name       string `json:"name"`
	Hidden     int    `json:"hidden"`
	AllReduces int    `json:"all_reduces"`
}

type chosenJSON struct {
	rangeJSON
	Backend *string `json:"backend"` // null: nobody
}

type sizeJSON struct {
	Bytes   int64   `json:"bytes"`
	Tokens  int     `json:"tokens,omitempty"`
	Backend *string `json:"backend"`
}

type candidateJSON struct {
	Backend     string       `json:"backend"`
	Plugin      string       `json:"plugin"`
	Verdict     backend.Kind `json:"verdict"`
	Ranges      []rangeJSON  `json:"ranges"`
	Reasons     []reasonJSON `json:"reasons"`
	WouldAccept []string     `json:"would_accept_if,omitempty"` // all of these together
	Notes       []string     `json:"notes,omitempty"`
}

type rangeJSON struct {
	Min      int64  `json:"min"`
	Max      *int64 `json:"max"`
	Multiple int64  `json:"multiple,omitempty"`
	// Unmeasured: the bounds, or some within, are a guess for this kind of machine.
	Unmeasured bool `json:"unmeasured,omitempty"`
}

type reasonJSON struct {
	Code     backend.Code `json:"code"`
	Observed string       `json:"observed"`
	Required string       `json:"required"`
	Rank     *int         `json:"rank"`
	Text     string       `json:"text"`
}

type diagnosisJSON struct {
	Code diagnose.Code `json:"code"`
	Text string        `json:"text"`
	Do   string        `json:"do"`
}

// JSON is the answer for programs.
func (a Answer) JSON() JSON {
	g, c, d := a.Request.Group, a.Request.Class, a.Decision
	x := JSON{
		Profile:  a.Profile,
		Topology: &topologyJSON{a.Topology.Source, a.Topology.Format, a.Topology.Complete},
		Group: groupJSON{
			g.WorldSize(), worst(g).String(), g.FullNVLink().String(), a.Topology.Devices, g.Hosts(), g.P2P.String(), g.Multicast.String(),
		},
		Request: requestJSON{c.Memory.String(), c.DataType.String(), c.Op.String(), c.Captured, c.Registered},
		Sizes:   lo.Map(a.Sizes, func(n Size, _ int) sizeJSON { return sizeJSON{n.Bytes, n.Tokens, a.name(d.Table.Lookup(n.Bytes))} }),
		Candidates: lo.Map(d.Answers, func(x dispatch.Answer, i int) candidateJSON {
			v := x.Verdict
			return candidateJSON{x.Backend, x.Plugin, v.Kind, lo.Map(v.Ranges, toRange), lo.Map(v.Reasons, toReason), a.Changes[i], a.Remarks[i]}
		}),
		Warnings:  append([]string{}, a.Warnings...),
		Diagnoses: lo.Map(a.Findings, func(f diagnose.Finding, _ int) diagnosisJSON { return diagnosisJSON{f.Code, f.Text, f.Do} }),
	}
	if m := a.Model; m != nil {
		x.Model = &modelJSON{m.Name, m.Hidden, m.AllReduces}
	}
	least := int64(1)
	for _, s := range d.Table.Segments() {
		if len(s.Choices) == 0 {
			x.Chosen = append(x.Chosen, chosenJSON{toRange(backend.Range{Min: least, Max: s.Max}, 0), nil})
		}
		for _, c := range s.Choices {
			r := backend.Range{Min: least, Max: s.Max, Multiple: c.Multiple}
			r.Unmeasured = a.guess(c.Index, r) != ""
			x.Chosen = append(x.Chosen, chosenJSON{toRange(r, 0), a.name(c.Index)})
		}
		least = s.Max + 1
	}
	return x
}

func (a Answer) name(i int) *string {
	if i == dispatch.None {
		return nil
	}
	return &a.Decision.Answers[i].Backend
}

func toRange(r backend.Range, _ int) rangeJSON {
	j := rangeJSON{Min: r.Min, Max: &r.Max, Unmeasured: r.Unmeasured}
	if r.Max == backend.NoLimit {
		j.Max = nil
	}
	if r.Multiple > 1 {
		j.Multiple = r.Multiple
	}
	return j
}

func toReason(r backend.Reason, _ int) reasonJSON {
	j := reasonJSON{Code: r.Code, Observed: r.Observed, Required: r.Required, Text: r.Text}
	if r.Rank != backend.AnyRank {
		j.Rank = &r.Rank
	}
	if j.Text == "" {
		j.Text = r.Code.Meaning()
	}
	return j
}

// Encode writes a value as indented JSON.
func Encode(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// maxJSON is the largest explanation that is read back.
const maxJSON = 16 << 20

// Decode reads what Encode wrote of a JSON.
func Decode(r io.Reader) (JSON, error) {
	var x JSON
	if err := json.NewDecoder(io.LimitReader(r, maxJSON)).Decode(&x); err != nil {
		return x, fmt.Errorf("not what `weir explain --format json` prints: %w", err)
	}
	if len(x.Chosen) == 0 || x.Request.DataType == "" || x.Group.WorldSize < 1 {
		return x, fmt.Errorf("not what `weir explain --format json` prints: without chosen, request or group")
	}
	return x, nil
}

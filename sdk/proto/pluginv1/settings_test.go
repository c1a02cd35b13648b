package pluginv1_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"

	"github.com/weir-project/weir/sdk/proto/pluginv1"
)

// asked is a plugin that keeps what it is configured with.
type asked struct {
	pluginv1.PluginServiceClient
	got map[string]any
}

func (a *asked) Describe(_ context.Context, in *pluginv1.DescribeRequest, _ ...grpc.CallOption) (*pluginv1.DescribeResponse, error) {
	a.got = in.GetSettings().AsMap()
	return nil, errors.New("enough")
}

// A number reaches the plugin as it is, or its setting is named.
func TestSettingsArriveAsTheyAre(t *testing.T) {
	for name, c := range map[string]struct {
		value any
		want  any
		err   string
	}{
		"2^53":              {1 << 53, 9007199254740992.0, ""},
		"2^53+1":            {1<<53 + 1, nil, `settings: a.b[1]: 9007199254740993 is a whole number that a setting cannot hold, the nearest is 9007199254740992: write it as text ("9007199254740993")`},
		"-2^53-1":           {-1<<53 - 1, nil, `settings: a.b[1]: -9007199254740993 is a whole number that a setting cannot hold, the nearest is -9007199254740992: write it as text ("-9007199254740993")`},
		"2^53+2":            {int64(1<<53 + 2), 9007199254740994.0, ""},
		"least integer":     {int64(-1 << 63), -9223372036854775808.0, ""},
		"greatest integer":  {uint64(1<<64 - 1), nil, `settings: a.b[1]: 18446744073709551615 is a whole number that a setting cannot hold, the nearest is 18446744073709551616: write it as text ("18446744073709551615")`},
		"fraction":          {0.1, 0.1, ""},
		"large fraction":    {1e300, 1e300, ""},
		"power of ten":      {json.Number("1e23"), 1e23, ""},
		"small":             {5e-324, 5e-324, ""},
		"JSON whole number": {json.Number("9007199254740993"), nil, `settings: a.b[1]: 9007199254740993 is a whole number that a setting cannot hold, the nearest is 9007199254740992: write it as text ("9007199254740993")`},
		"out of range":      {json.Number("1e400"), nil, "settings: a.b[1]: 1e400 is not a number that a setting can hold"},
		"text":              {"9007199254740993", "9007199254740993", ""},
		"of the plugin's":   {struct{ N uint64 }{1<<53 + 1}, nil, `settings: a.b[1].N: 9007199254740993 is a whole number that a setting cannot hold, the nearest is 9007199254740992: write it as text ("9007199254740993")`},
	} {
		t.Run(name, func(t *testing.T) {
			client := &asked{}
			_, err := pluginv1.Describe(t.Context(), t.Context(), client, map[string]any{"a": map[string]any{"b": []any{true, c.value}}})
			if c.err != "" {
				if err.Error() != c.err {
					t.Errorf("got  %v\nwant %s", err, c.err)
				}
				return
			}
			if diff := cmp.Diff(map[string]any{"a": map[string]any{"b": []any{true, c.want}}}, client.got); diff != "" {
				t.Errorf("%s (%v)", diff, err)
			}
		})
	}
}

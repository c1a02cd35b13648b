package pluginv1

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-project/weir/core/backend"
)

// Description is what a plugin says of itself.
type Description struct {
	Name, Version string
	Backends      []backend.Info
}

// Describe configures a plugin and asks what it offers. life is done, with a cause, once its process has ended. A
// *backend.Fault means that the plugin failed; any other error is for the person who configured or wrote it.
func Describe(ctx, life context.Context, client PluginServiceClient, settings map[string]any) (Description, error) {
	values, err := toStruct(settings)
	if err != nil {
		return Description{}, fmt.Errorf("settings: %w", err)
	}
	out, err := client.Describe(ctx, &DescribeRequest{Settings: values})
	if err != nil {
		return Description{}, toDescribeError(ctx, life, err)
	}
	d := Description{Name: out.GetName(), Version: out.GetVersion()}
	if err := CheckName(d.Name); err != nil {
		return Description{}, &DescriptionError{fmt.Errorf("advertises itself %w", err)}
	}
	if len(out.GetBackends()) == 0 {
		return Description{}, &DescriptionError{errors.New("offers no backends")}
	}
	if d.Backends, err = eachErr("advertised backend", out.GetBackends(), ToInfo); err != nil {
		return Description{}, &DescriptionError{err}
	}
	return d, nil
}

// DescriptionError is that a plugin came up but cannot be what it says: a name or a requirement is wrong.
type DescriptionError struct{ Err error }

func (e *DescriptionError) Error() string { return e.Err.Error() }

// Unwrap is what is wrong.
func (e *DescriptionError) Unwrap() error { return e.Err }

// toStruct goes through JSON, which knows more Go types than structpb does.
func toStruct(settings map[string]any) (*structpb.Struct, error) {
	if len(settings) == 0 {
		return nil, nil
	}
	data, err := json.Marshal(settings)
	if err != nil {
		return nil, err
	}
	s := &structpb.Struct{}
	return s, s.UnmarshalJSON(data)
}

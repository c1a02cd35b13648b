package pluginv1

import (
	"context"
	"fmt"

	"github.com/weir-project/weir/core/backend"
	"github.com/weir-project/weir/core/plain"
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
	out, err := client.Describe(ctx, &DescribeRequest{Settings: values}, smallAnswer)
	if err != nil {
		return Description{}, toDescribeError(ctx, life, err)
	}
	d := Description{Name: out.GetName(), Version: plain.Line(out.GetVersion())}
	if err := checkOffer(d.Name, out.GetVersion(), len(out.GetBackends())); err != nil {
		return Description{}, &DescriptionError{said(err)}
	}
	if d.Backends, err = eachErr("advertised backend", out.GetBackends(), ToInfo); err != nil {
		return Description{}, &DescriptionError{said(err)}
	}
	return d, nil
}

// DescriptionError is that a plugin came up but cannot be what it says: a name or a requirement is wrong.
type DescriptionError struct{ Err error }

func (e *DescriptionError) Error() string { return e.Err.Error() }

// Unwrap is what is wrong.
func (e *DescriptionError) Unwrap() error { return e.Err }

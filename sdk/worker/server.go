package worker

import (
	"context"
	"log/slog"
)

// Server is the half of a backend that does the work: embed it in a backend.Backend to make it a backend.Worker. It serves
// each group on a goroutine of its own until the engine ends it.
type Server struct {
	// Do combines the inputs of a tile. It may be called for several groups at once. An error ends the service of the
	// group, whose ranks go on with another backend.
	Do func(*Tile) error
}

// Attach begins to serve a group.
func (s Server) Attach(ctx context.Context, group, socket string) error {
	g, err := Attach(ctx, socket)
	if err != nil {
		return err
	}
	go func() {
		if err := g.Serve(s.Do); err != nil {
			slog.Error("the service of a group has ended", "group", group, "error", err)
		}
	}()
	return nil
}

// Detach has nothing to do: the service has ended by itself when the engine let the group's memory go.
func (Server) Detach(context.Context, string) error { return nil }

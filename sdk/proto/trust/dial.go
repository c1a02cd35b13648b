package trust

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
)

// aFolder is what to do about a folder that others can write to.
const aFolder = "have the socket in a folder of your own (mode 0700), below folders that only you and root may write to"

// Dial connects to a Unix socket if nobody but this user and root can be behind it: they alone can have put it there, and one of
// them listens.
func Dial(ctx context.Context, path string) (*net.UnixConn, error) {
	if err := checkSocket(path); err != nil {
		return nil, err
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path) // not the resolved one, which may be too long for a socket
	if err != nil {
		return nil, err
	}
	socket := conn.(*net.UnixConn)
	who, err := Peer(socket)
	if err == nil && !who.Trusted() {
		err = &stranger{who}
	}
	if err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	return socket, nil
}

// stranger is that another user listens.
type stranger struct{ who Process }

func (s *stranger) Error() string {
	return fmt.Sprintf("%s listens there, neither you (%d) nor root; %s", s.who, os.Geteuid(), aFolder)
}

func (s *stranger) Is(target error) bool { return target == ErrStranger }

func checkSocket(path string) error {
	if err := named(path); err != nil {
		return err
	}
	_, err := Path(path)
	return withAdvice(err)
}

// SocketFolder refuses a folder in which to make sockets if another user could replace them, or take their names.
func SocketFolder(dir string) error {
	_, err := Folder(dir)
	return withAdvice(err)
}

// named refuses a socket without a file: nobody owns its name.
func named(path string) error {
	if path == "" || strings.HasPrefix(path, "@") || strings.Contains(path, "\x00") {
		return fmt.Errorf("%q is no path of a socket: abstract sockets, which anybody may make, are not used; give the path of a file", path)
	}
	return nil
}

func withAdvice(err error) error {
	if refused := (*Refusal)(nil); errors.As(err, &refused) {
		return fmt.Errorf("%w; %s", err, aFolder)
	}
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("who may write to it cannot be found out: %w", err)
	}
	return err
}

package pluginhost

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/weir-project/weir/sdk/proto/pluginv1"
)

// ErrNoTLS is the mistake of a plugin that does not know TLS and was started as one that does.
var ErrNoTLS = errors.New("it sent no certificate; if it does not know TLS, set tls: false for it (plugins.NAME.tls)")

// checkHandshake says what is wrong with the first line that a plugin printed:
// core version | protocol version | network | address | protocol | certificate.
func checkHandshake(line string, tls bool) error {
	parts := strings.Split(line, "|")
	_, err := strconv.Atoi(parts[0])
	if len(parts) < 4 || err != nil {
		return fmt.Errorf("not a Weir plugin, or it prints before plugin.Serve: its first line on stdout is %q, not the handshake", shorten(line))
	}
	version, protocol := parts[1], "netrpc"
	if len(parts) > 4 {
		protocol = parts[4]
	}
	switch {
	case parts[0] != "1":
		return fmt.Errorf("speaks version %s of go-plugin's handshake, this engine speaks 1: build it with a current go-plugin", shorten(parts[0]))
	case version != strconv.Itoa(pluginv1.ProtocolVersion):
		return fmt.Errorf("speaks version %s of the plugin protocol, this engine speaks %d: use a plugin built for this engine", shorten(version), pluginv1.ProtocolVersion)
	case parts[2] != "unix" && parts[2] != "tcp" || parts[3] == "":
		return fmt.Errorf("wrong handshake: it listens at %q %q, want a unix or tcp address", shorten(parts[2]), shorten(parts[3]))
	case protocol != "grpc":
		return fmt.Errorf("wrong handshake: it serves %q, want grpc", shorten(protocol))
	case tls && (len(parts) < 6 || parts[5] == ""):
		return fmt.Errorf("wrong handshake: %w", ErrNoTLS)
	}
	return nil
}

// shorten keeps a message on one line of a terminal.
func shorten(s string) string {
	const most = 80
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

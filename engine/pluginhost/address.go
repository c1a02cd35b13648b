package pluginhost

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
)

// Address is where a plugin that somebody else has started listens.
type Address struct{ Network, Path string } // "unix" and a path, or "tcp" and a host with a port

// ParseAddress reads the handshake line that a plugin printed, or the address in it: a path, or a host of this machine and a
// port. Networks may be named: unix:PATH, tcp:HOST:PORT.
func ParseAddress(text string) (Address, error) {
	text = strings.TrimSpace(text)
	if strings.Contains(text, "|") {
		return fromHandshake(text)
	}
	a := Address{Network: "tcp", Path: text}
	switch network, rest, named := strings.Cut(text, ":"); {
	case text == "":
		return a, errors.New("no address")
	case named && (network == "unix" || network == "tcp"):
		a = Address{Network: network, Path: rest}
	case strings.Contains(text, "/"):
		a.Network = "unix"
	}
	if a.Network == "unix" {
		var err error
		a.Path, err = filepath.Abs(strings.TrimPrefix(a.Path, "//"))
		return a, err
	}
	host, port, err := net.SplitHostPort(a.Path)
	if err != nil || port == "" {
		return a, fmt.Errorf("%q is no path of a socket and no HOST:PORT", text)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return a, fmt.Errorf("%s is not on this machine: the connection is not encrypted, use 127.0.0.1", host)
	}
	return a, nil
}

func fromHandshake(line string) (Address, error) {
	if err := checkHandshake(line, false); err != nil {
		return Address{}, err
	}
	parts := strings.Split(line, "|")
	if len(parts) > 5 && parts[5] != "" {
		return Address{}, errors.New("the handshake line has a certificate: an engine started this plugin; start one by hand")
	}
	return ParseAddress(parts[2] + ":" + parts[3])
}

func (a Address) String() string { return a.Network + ":" + a.Path }

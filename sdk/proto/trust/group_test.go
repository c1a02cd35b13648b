package trust

import (
	"encoding/binary"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMembers(t *testing.T) {
	const users = "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000:Ann:/home/ann:/bin/sh\nann2:x:1000:1000::/:/bin/sh\nbob:x:1001:1001::/home/bob:/bin/sh\nbroken\n"
	for name, c := range map[string]struct{ groups, users, want string }{
		"private":            {"root:x:0:\nann:x:1000:\nbob:x:1001:ann\n", users, ""},
		"names itself":       {"ann:x:1000:ann,ann2\n", users, ""},
		"a member":           {"ann:x:1000:ann,bob\n", users, "user bob is in group 1000 too"},
		"a member unknown":   {"ann:x:1000:carol\n", users, "user carol is in group 1000 too"},
		"their first group":  {"ann:x:1000:\n", users + "eve:x:1002:1000::/:/bin/sh\n", "user eve is in group 1000 too"},
		"a group twice":      {"ann:x:1000:\nall:x:1000:bob\n", users, "user bob is in group 1000 too"},
		"not in the file":    {"root:x:0:\n", users, "who is in group 1000 is not known: it is not in /etc/group"},
		"empty files":        {"", "", "who is in group 1000 is not known: it is not in /etc/group"},
		"user is not listed": {"ann:x:1000:\n", "", ""},
	} {
		if got := members(strings.NewReader(c.groups), strings.NewReader(c.users), 1000); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestListed gives a file an access-control list by which user 4711 may write, as setfacl does.
func TestListed(t *testing.T) {
	dir := t.TempDir()
	if why := listed(dir); why != "" {
		t.Errorf("a plain folder: %q", why)
	}
	acl := binary.LittleEndian.AppendUint32(nil, 2) // the version
	for _, e := range []struct {
		tag, perm uint16
		id        uint32
	}{{0x01, 7, ^uint32(0)}, {0x02, 7, 4711}, {0x04, 5, ^uint32(0)}, {0x10, 7, ^uint32(0)}, {0x20, 5, ^uint32(0)}} {
		acl = binary.LittleEndian.AppendUint16(acl, e.tag)
		acl = binary.LittleEndian.AppendUint16(acl, e.perm)
		acl = binary.LittleEndian.AppendUint32(acl, e.id)
	}
	if err := unix.Setxattr(dir, "system.posix_acl_access", acl, 0); err != nil {
		t.Skipf("no access-control lists on this file system: %v", err)
	}
	if why := listed(dir); why != "it has an access-control list" {
		t.Errorf("with a list: %q", why)
	}
	// The list's mask shows as the group's bits, so who is not private to begin with is refused by them alone.
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm()&0o020 == 0 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestMaps(t *testing.T) {
	for _, c := range []struct {
		table string
		uid   uint32
		want  bool
	}{
		{"         0          0 4294967295\n", 65534, true},
		{"         0       1000          1\n", 0, true},
		{"         0       1000          1\n", 65534, false},
		{"0 1000 1\n1 100000 65536\n", 65534, true},
		{"0 1000 1\n1 100000 65533\n", 65534, false},
		{"", 65534, false},
		{"nonsense\n-1 2 3\n", 0, false},
	} {
		if got := maps(c.table, c.uid); got != c.want {
			t.Errorf("%q has %d: %v", c.table, c.uid, got)
		}
	}
	if s := user(0); s != "user 0" {
		t.Error(s)
	}
}

package trust

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// sharedGroup says why the group whose number is the user's, and which may write to a file, is not this user alone; "" if it is, as
// with a private group as useradd makes it. What is not known counts as shared.
func sharedGroup(path string, me uint32) string {
	if why := listed(path); why != "" {
		return why
	}
	groups, err := os.Open("/etc/group")
	if err != nil {
		return fmt.Sprintf("who is in group %d is not known", me)
	}
	defer groups.Close()
	users, err := os.Open("/etc/passwd")
	if err != nil {
		return fmt.Sprintf("who is in group %d is not known", me)
	}
	defer users.Close()
	return members(groups, users, me)
}

// listed says whether a file has an access-control list, with which the group's bits are what others may have.
func listed(path string) string {
	n, err := unix.Lgetxattr(path, "system.posix_acl_access", nil)
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ENOTSUP) || err == nil && n == 0 {
		return ""
	}
	return "it has an access-control list"
}

// members says who else is in the group whose number is the user's. groups and users are as /etc/group and /etc/passwd.
func members(groups, users io.Reader, me uint32) string {
	mine := strconv.FormatUint(uint64(me), 10)
	var names []string // of this user
	for f := range entries(users, 4) {
		switch {
		case f[2] == mine:
			names = append(names, f[0])
		case f[3] == mine:
			return fmt.Sprintf("user %s is in group %s too", f[0], mine)
		}
	}
	known := false
	for f := range entries(groups, 4) {
		if f[2] != mine {
			continue
		}
		known = true
		for _, name := range strings.Split(f[3], ",") {
			if name != "" && !slices.Contains(names, name) {
				return fmt.Sprintf("user %s is in group %s too", name, mine)
			}
		}
	}
	if !known {
		return fmt.Sprintf("who is in group %s is not known: it is not in /etc/group", mine)
	}
	return ""
}

// entries are the lines of such a file that have enough fields.
func entries(r io.Reader, fields int) func(yield func([]string) bool) {
	return func(yield func([]string) bool) {
		for lines := bufio.NewScanner(r); lines.Scan(); {
			if f := strings.Split(lines.Text(), ":"); len(f) >= fields && !yield(f) {
				return
			}
		}
	}
}

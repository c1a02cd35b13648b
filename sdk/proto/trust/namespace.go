package trust

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// user is a user's number for people. In a user namespace all users of the host that have no number there look like one.
func user(uid uint32) string {
	if unmapped(uid) {
		return fmt.Sprintf("user %d (in this user namespace that is every user without a number in it)", uid)
	}
	return fmt.Sprintf("user %d", uid)
}

// unmapped reports whether a number stands for users that have none in this process's user namespace.
func unmapped(uid uint32) bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && !maps(string(text), uid)
}

// maps reports whether a table as /proc/PID/uid_map has a number: each line is the first number inside, the first outside, and how
// many there are.
func maps(table string, uid uint32) bool {
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) != 3 {
			continue
		}
		first, err1 := strconv.ParseUint(f[0], 10, 32)
		count, err2 := strconv.ParseUint(f[2], 10, 32)
		if err1 == nil && err2 == nil && uint64(uid) >= first && uint64(uid)-first < count {
			return true
		}
	}
	return false
}

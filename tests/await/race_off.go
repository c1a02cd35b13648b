//go:build !race

package await

const raced = 1

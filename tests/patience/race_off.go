//go:build !race

package patience

const raced = 1

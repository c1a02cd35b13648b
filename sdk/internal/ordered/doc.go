// Package ordered stores to memory shared with other processes, in order and without the cost of a full barrier.
package ordered

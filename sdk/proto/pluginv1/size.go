package pluginv1

import (
	"fmt"
	"regexp"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weir-project/weir/core/backend"
)

// MaxAnswer is the largest message that a plugin may answer a question for a plan with, in bytes: what the largest plans that are valid need (a
// kernel's image of 64 MiB with its launch table; 2^20 steps with 2^22 sources), and no more, because an engine takes many
// times the memory for a message made of small parts. A schedule for 64 ranks has some hundred KiB.
const MaxAnswer = 72 << 20

func tooLarge(bytes, limit int) error {
	return fmt.Errorf("the answer has %d bytes, an engine takes %d (%d MiB) at most", bytes, limit, limit>>20)
}

// checkSize has a plugin say itself that its plan is too large: gRPC would say so in its own words, and not where.
func checkSize(p *PlanResponse) error {
	if n := proto.Size(p); n > MaxAnswer {
		return &backend.Fault{Code: backend.PlanRejected, Rank: backend.AnyRank, Err: tooLarge(n, MaxAnswer)}
	}
	return nil
}

var grpcTooLarge = regexp.MustCompile(`^grpc: received message larger than max \((\d+) vs\. (\d+)\)$`)

// refusedSize is the error for an answer that the connection has refused, or nil for another status. It tells by the text,
// because a plugin may answer RESOURCE_EXHAUSTED too.
func refusedSize(s *status.Status) error {
	m := grpcTooLarge.FindStringSubmatch(s.Message())
	if s.Code() != codes.ResourceExhausted || m == nil {
		return nil
	}
	n, err := strconv.Atoi(m[1])
	limit, err2 := strconv.Atoi(m[2])
	if err != nil || err2 != nil {
		return nil
	}
	return tooLarge(n, limit)
}

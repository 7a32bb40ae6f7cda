package rls

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"taskbus/coordinator"
	"taskbus/coordinator/gateway"
)

// Source is what the service asks of the coordinator; httpapi.Source says how it answers.
type Source interface {
	AskCalls(ctx context.Context, calls []coordinator.Call) ([]coordinator.CallAnswer, error)
}

// The bounds of one request. A gateway that goes beyond the first two is set up wrongly; beyond the third its
// client may have brought it, and is over the limit.
const (
	maxDescriptors = 64
	maxEntries     = 32
	maxRequest     = 64 << 10 // bytes
)

// askTimeout bounds the wait for an answer: until it is in the journal. Envoy itself waits for 20 ms
// unless it is set to wait longer.
const askTimeout = 5 * time.Second

// limiter answers ShouldRateLimit. It is safe for concurrent use.
type limiter struct {
	pb.UnimplementedRateLimitServiceServer
	src    Source
	legacy bool // headers of limits as well
	// prefix and numbered make an id for every call.
	prefix   string
	numbered atomic.Uint64
}

func newLimiter(src Source, opts Options) *limiter {
	return &limiter{src: src, legacy: opts.LegacyLimitHeaders, prefix: "rls-" + strings.ToLower(rand.Text()[:13]) + "-"}
}

// ShouldRateLimit asks the engine about all descriptors at once.
func (l *limiter) ShouldRateLimit(ctx context.Context, q *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	descriptors := q.GetDescriptors()
	if len(descriptors) == 1 && descriptors[0] == unreadable {
		return respond([]demand{{fault: fmt.Sprintf("it is no text in UTF-8, or the request has more than %d bytes",
			maxRequest)}}, nil, l.legacy), nil
	}
	if n := len(descriptors); n == 0 || n > maxDescriptors {
		return nil, status.Errorf(codes.InvalidArgument, "the request has %d descriptors; 1 to %d are answered", n,
			maxDescriptors)
	}
	demands := make([]demand, len(descriptors))
	calls := make([]coordinator.Call, 0, len(descriptors))
	faulty := false
	for i, d := range descriptors {
		if d.GetIsNegativeHits() {
			return nil, status.Error(codes.InvalidArgument,
				"is_negative_hits is not answered: what was charged is not given back; charge what was used when the call has "+
					"ended")
		}
		demands[i] = read(d, q.GetHitsAddend())
		if demands[i].asks {
			demands[i].call.Key = l.newKey()
			calls = append(calls, demands[i].call)
		}
		faulty = faulty || demands[i].fault != ""
	}
	if faulty { // of the others nothing may be charged, but what has been used already
		for i := range calls {
			if calls[i].Op != coordinator.CallCharge {
				calls[i].Op = coordinator.CallCheck
			}
		}
	}
	answers, err := l.ask(ctx, calls)
	if err != nil {
		return nil, err
	}
	return respond(demands, answers, l.legacy), nil
}

func (l *limiter) newKey() coordinator.TaskKey {
	return coordinator.CallKey("", l.prefix+strconv.FormatUint(l.numbered.Add(1), 10))
}

// ask has all calls answered together. What has been used already is charged apart from what is
// asked for, if a request has both: it stays charged if the rest is refused.
func (l *limiter) ask(ctx context.Context, calls []coordinator.Call) ([]coordinator.CallAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	charges := 0
	for i := range calls {
		if calls[i].Op == coordinator.CallCharge {
			charges++
		}
	}
	if charges == 0 || charges == len(calls) {
		return l.together(ctx, calls)
	}
	answers := make([]coordinator.CallAnswer, len(calls))
	for _, charges := range [...]bool{true, false} {
		var some []coordinator.Call
		var at []int
		for i := range calls {
			if (calls[i].Op == coordinator.CallCharge) == charges {
				some, at = append(some, calls[i]), append(at, i)
			}
		}
		got, err := l.together(ctx, some)
		if err != nil {
			return nil, err
		}
		for i := range got {
			answers[at[i]] = got[i]
		}
	}
	return answers, nil
}

func (l *limiter) together(ctx context.Context, calls []coordinator.Call) ([]coordinator.CallAnswer, error) {
	if len(calls) == 0 {
		return nil, nil
	}
	answers, err := l.src.AskCalls(ctx, calls)
	if err != nil {
		return nil, status.Error(codes.Unavailable, gateway.WhyUnanswered(err))
	}
	return answers, nil
}

// onlyGateways refuses every caller that is no gateway before the message is read: a gateway shows a
// certificate, or sends the gateways' token as metadata `authorization: Bearer …` (Envoy: initial_metadata).
func onlyGateways(gateways *gateway.Roster) tap.ServerInHandle {
	return func(ctx context.Context, info *tap.Info) (context.Context, error) {
		var tls credentials.TLSInfo
		if p, ok := peer.FromContext(ctx); ok {
			tls, _ = p.AuthInfo.(credentials.TLSInfo)
		}
		if gateways.Shown(info.Header.Get("authorization"), &tls.State) {
			return ctx, nil
		}
		return nil, status.Error(codes.Unauthenticated,
			"send the gateways' token (TASKBUS_GATEWAY_TOKEN) as metadata authorization: Bearer TOKEN (Envoy: "+
				"initial_metadata of the grpc_service), or show a certificate whose common name TASKBUS_GATEWAY_NAMES lists")
	}
}

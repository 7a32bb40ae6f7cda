package integration

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"taskbus/coordinator/bus"
)

// gatewayToken is that of the gateways of these tests.
const gatewayToken = "canary-gateways-0123456789-abcdef"

// envoy asks as Envoy does: with its own protocol buffers, over gRPC.
type envoy struct {
	t      *testing.T
	client pb.RateLimitServiceClient
}

func newEnvoy(t *testing.T, c *process) *envoy {
	t.Helper()
	address, _ := c.log.await(t, "taskbus is starting")["rls"].(string)
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return &envoy{t, pb.NewRateLimitServiceClient(conn)}
}

// descriptor is one such as "agent=rich unit=tokens", with these hits; fewer than 0: those of the
// request count.
func descriptor(said string, hits int64) *common.RateLimitDescriptor {
	d := &common.RateLimitDescriptor{}
	for _, entry := range strings.Fields(said) {
		key, value, _ := strings.Cut(entry, "=")
		d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: key, Value: value})
	}
	if hits >= 0 {
		d.HitsAddend = wrapperspb.UInt64(uint64(hits))
	}
	return d
}

func (e *envoy) ask(ctx context.Context, d ...*common.RateLimitDescriptor) (*pb.RateLimitResponse, error) {
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+gatewayToken)
	return e.client.ShouldRateLimit(ctx, &pb.RateLimitRequest{Domain: "taskbus", Descriptors: d})
}

// want asks, and fails unless the overall answer is so.
func (e *envoy) want(ok bool, d ...*common.RateLimitDescriptor) *pb.RateLimitResponse {
	e.t.Helper()
	answer, err := e.ask(e.t.Context(), d...)
	if err != nil || (answer.GetOverallCode() == pb.RateLimitResponse_OK) != ok {
		e.t.Fatalf("%v: %v, %v; want that it passes: %t", d, answer, err, ok)
	}
	return answer
}

// Envoy asks a real coordinator: a request and a peek at its tokens when it begins, the tokens when it
// has ended. What was charged survives the coordinator.
func TestEnvoyAsksForQuota(t *testing.T) {
	t.Parallel()
	env := []string{"TASKBUS_GATEWAY_TOKEN=" + gatewayToken, "TASKBUS_RLS=127.0.0.1:0"}
	r, c := gatewayRig(t, gatewayQuotas, env...)
	e := newEnvoy(t, c)

	// The two calls an hour of rare; each time with a peek whether there are tokens.
	begins := func(agent string) []*common.RateLimitDescriptor {
		return []*common.RateLimitDescriptor{descriptor("agent="+agent, -1), descriptor("agent="+agent+" unit=tokens", 0)}
	}
	answer := e.want(true, begins("rare")...)
	if s := answer.GetStatuses(); len(s) != 2 || s[0].GetCurrentLimit().GetName() != "pool/team/rare:requests:rate" ||
		s[0].GetLimitRemaining() != 1 ||
		s[1].GetCurrentLimit().GetName() != "pool/team/rare:total_tokens:budget" ||
		s[1].GetCurrentLimit().GetRequestsPerUnit() != 1000 || s[1].GetLimitRemaining() != 1000 {
		t.Errorf("statuses %v; want one of two requests left, and all of 1000 tokens", s)
	}
	e.want(true, begins("rare")...)
	answer = e.want(false, begins("rare")...)
	if s := answer.GetStatuses(); s[0].GetCode() != pb.RateLimitResponse_OVER_LIMIT ||
		s[1].GetCode() != pb.RateLimitResponse_OK ||
		!strings.Contains(string(answer.GetRawBody()), `"violated-policies":["pool/team/rare:requests:rate"]`) {
		t.Errorf("statuses %v; want that the requests are over the limit, and the tokens are not; body %s", s,
			answer.GetRawBody())
	}
	if used, _ := c.used("rare"); used != 0 {
		t.Errorf("%v tokens were charged by peeks", used)
	}

	// It ends: 400 + 500 tokens, and 300 more although 100 are left, for they have been used.
	ends := func(agent string, in, out int64) []*common.RateLimitDescriptor {
		return []*common.RateLimitDescriptor{descriptor("agent="+agent+" unit=input_tokens mode=charge", in),
			descriptor("agent="+agent+" unit=output_tokens mode=charge", out)}
	}
	e.want(true, ends("rich", 400, 500)...)
	e.want(true, begins("rich")...)
	e.want(true, ends("rich", 100, 200)...)
	if used, reserved := c.used("rich"); used != 1200 || reserved != 0 {
		t.Errorf("%v tokens used and %v reserved, want 1200 and 0", used, reserved)
	}
	e.want(false, begins("rich")...)

	// Together or not at all: one for which there is quota, and one for which there is not.
	before, _ := c.used("rare")
	e.want(false, descriptor("agent=rare unit=tokens", 100), descriptor("agent=rich unit=tokens", 100))
	if used, _ := c.used("rare"); used != before {
		t.Errorf("%v tokens of rare are used after a refusal, %v were before", used, before)
	}
	// Keys of others are passed over, and what is no agent is refused.
	e.want(true, descriptor("remote_address=10.0.0.1", -1))
	e.want(false, descriptor("agent=../../rich", -1))

	if _, err := e.client.ShouldRateLimit(t.Context(), &pb.RateLimitRequest{Descriptors: begins("rich")}); status.Code(
		err) != codes.Unauthenticated {
		t.Errorf("without the token: %v", err)
	}

	second := r.launch(r.broker.URL, append(env, "TASKBUS_AGENT_SECRET="+agentSecret)...)
	second.awaitState("standby")
	standby := newEnvoy(t, second)
	standby.want(false, begins("rich")...) // it asks the one that leads
	standby.want(true, descriptor("agent=rare unit=tokens", 1))
	if used, _ := c.used("rare"); used != before+1 {
		t.Errorf("%v tokens of rare are used at the leader after one more was asked of the standby, %v were before", used,
			before)
	}
	c.kill()
	second.awaitReady()
	if used, _ := second.used("rich"); used != 1200 {
		t.Errorf("after a take-over %v tokens are used, want 1200", used)
	}
	standby.want(false, begins("rich")...)
	r.empty(bus.QueueAssign)
}

// However many ask at once, no more passes than there is: 1000 tokens in calls of 7.
func TestEnvoyNeverOvershoots(t *testing.T) {
	t.Parallel()
	_, c := gatewayRig(t, gatewayQuotas, "TASKBUS_GATEWAY_TOKEN="+gatewayToken, "TASKBUS_RLS=127.0.0.1:0")
	e := newEnvoy(t, c)
	var passed atomic.Int64
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 20 {
				answer, err := e.ask(t.Context(), descriptor("agent=rich unit=tokens", 7))
				if err != nil {
					t.Error(err)
					return
				}
				if answer.GetOverallCode() == pb.RateLimitResponse_OK {
					passed.Add(1)
				}
			}
		})
	}
	all.Wait()
	// 320 calls want 2240 tokens: ⌊1000/7⌋ = 142 of them pass, which is 994.
	if used, _ := c.used("rich"); passed.Load() != 142 || used != 994 {
		t.Errorf("%d calls passed and %v tokens are used, want 142 and 994", passed.Load(), fmt.Sprint(used))
	}
}

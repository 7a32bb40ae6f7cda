package rls

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/gateway"
)

const token = "gateways-0123456789-abcdefghijklmn"

// fake answers from fields, and keeps what it was asked.
type fake struct {
	mu     sync.Mutex
	asked  [][]coordinator.Call
	answer func(coordinator.Call) coordinator.CallAnswer // nil: it grants
	err    error
}

func (f *fake) AskCalls(_ context.Context, calls []coordinator.Call) ([]coordinator.CallAnswer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, calls)
	answers := make([]coordinator.CallAnswer, len(calls))
	for i := range calls {
		if f.answer != nil {
			answers[i] = f.answer(calls[i])
		}
	}
	return answers, f.err
}

// served is a client of the service over a connection of this machine.
func served(t *testing.T, src Source) pb.RateLimitServiceClient {
	t.Helper()
	return servedWith(t, src, Options{})
}

func servedWith(t *testing.T, src Source, opts Options) pb.RateLimitServiceClient {
	t.Helper()
	return pb.NewRateLimitServiceClient(connected(t, src, opts))
}

// connected is a connection to a service that answers until the test ends.
func connected(t *testing.T, src Source, opts Options) *grpc.ClientConn {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, listener, src, gateway.NewRoster([]byte(token), nil), opts) }()
	conn, err := grpc.NewClient("passthrough:///"+listener.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return conn
}

func as(ctx context.Context, token string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

// saying is a descriptor of these keys and values.
func saying(entries ...string) *common.RateLimitDescriptor {
	d := &common.RateLimitDescriptor{}
	for i := 0; i < len(entries); i += 2 {
		d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: entries[i], Value: entries[i+1]})
	}
	return d
}

func hitting(d *common.RateLimitDescriptor, hits uint64) *common.RateLimitDescriptor {
	d.HitsAddend = wrapperspb.UInt64(hits)
	return d
}

// What descriptors say is what the engine is asked, all of it at once.
func TestDescriptorsAreCalls(t *testing.T) {
	usage := func(u coordinator.Usage) coordinator.Call {
		return coordinator.Call{Op: coordinator.CallConsume, Agent: "a", Usage: u}
	}
	for _, tc := range []struct {
		name string
		hits uint32 // of the request
		d    *common.RateLimitDescriptor
		want coordinator.Call
		none bool // the engine is not asked
	}{
		{"one request", 0, saying("agent", "a"), usage(coordinator.Usage{Requests: 1}), false},
		{"the hits of the request", 5, saying("agent", "a", "unit", "requests"), usage(coordinator.Usage{Requests: 5}),
			false},
		{"its own hits count", 5, hitting(saying("agent", "a", "unit", "tokens"), 700),
			usage(coordinator.Usage{InputTokens: 700}), false},
		{"input tokens", 9, saying("agent", "a", "unit", "input_tokens"), usage(coordinator.Usage{InputTokens: 9}), false},
		{"output tokens", 9, saying("agent", "a", "unit", "output_tokens"), usage(coordinator.Usage{OutputTokens: 9}), false},
		{"millionths of a dollar", 250_000, saying("agent", "a", "unit", "cost_usd"), usage(coordinator.Usage{CostUSD: 0.25}),
			false},
		{"a peek: would one more pass?", 5, hitting(saying("agent", "a", "unit", "tokens"), 0),
			coordinator.Call{Op: coordinator.CallCheck, Agent: "a", Usage: coordinator.Usage{InputTokens: 1}}, false},
		{"a check of as many", 0, hitting(saying("agent", "a", "unit", "tokens", "mode", "check"), 70),
			coordinator.Call{Op: coordinator.CallCheck, Agent: "a", Usage: coordinator.Usage{InputTokens: 70}}, false},
		{"what was used already", 0, hitting(saying("group", "g", "unit", "output_tokens", "mode", "charge"), 8),
			coordinator.Call{Op: coordinator.CallCharge, Group: "g", Usage: coordinator.Usage{OutputTokens: 8}}, false},
		{"nothing was used", 0, hitting(saying("agent", "a", "mode", "charge"), 0), coordinator.Call{}, true},
		{"everything, and a key of another service", 0, saying("agent", "a", "group", "g", "provider", "openai", "model",
			"meta/llama@8b", "operation", "chat", "remote_address", "::1"),
			coordinator.Call{Op: coordinator.CallConsume, Agent: "a", Group: "g", Operation: "chat",
				Usage: coordinator.Usage{Requests: 1, Provider: "openai", Model: "meta/llama@8b"}}, false},
		{"only keys of another service", 0, saying("remote_address", "::1", "path", "/v1"), coordinator.Call{}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			src := &fake{}
			answer, err := served(t, src).ShouldRateLimit(as(t.Context(), token),
				&pb.RateLimitRequest{Domain: "any", HitsAddend: tc.hits, Descriptors: []*common.RateLimitDescriptor{tc.d}})
			if err != nil || answer.GetOverallCode() != pb.RateLimitResponse_OK || len(answer.GetStatuses()) != 1 {
				t.Fatalf("%v, %v; want OK", answer, err)
			}
			if tc.none {
				if len(src.asked) != 0 {
					t.Errorf("the engine was asked %+v", src.asked)
				}
				return
			}
			tc.want.Meant, tc.want.Priority = coordinator.UsagePart, coordinator.PriorityNormal
			if len(src.asked) != 1 || len(src.asked[0]) != 1 {
				t.Fatalf("asked %+v, want once about one call", src.asked)
			}
			got := src.asked[0][0]
			if got.Key == (coordinator.TaskKey{}) {
				t.Error("the call has no key")
			}
			if tc.want.Key = got.Key; !reflect.DeepEqual(got, tc.want) {
				t.Errorf("asked  %+v\nwanted %+v", got, tc.want)
			}
		})
	}
}

// What a client of the gateway could bring about is refused, and not an error: a gateway lets
// through what fails.
func TestWrongDescriptorsAreOverTheLimit(t *testing.T) {
	for _, tc := range []struct {
		name, says string
		d          *common.RateLimitDescriptor
	}{
		{"an agent that is none", "agent is no id", saying("agent", "../etc/passwd")},
		{"an empty agent", "agent is no id", saying("agent", "")},
		{"an agent twice", "agent is there twice", saying("agent", "a", "agent", "b")},
		{"a model that is none", "model is no name", saying("agent", "a", "model", strings.Repeat("m", 129))},
		{"a unit that is none", "unit must be", saying("agent", "a", "unit", "pounds")},
		{"a mode that is none", "mode must be", saying("agent", "a", "mode", "free")},
		{"more than any call", "more hits", hitting(saying("agent", "a", "unit", "tokens"), 1<<63)},
		{"too many entries", "more entries", saying(strings.Split(strings.Repeat("k,v,", 33)+"agent,a", ",")...)},
	} {
		src := &fake{}
		answer, err := served(t, src).ShouldRateLimit(as(t.Context(), token),
			&pb.RateLimitRequest{Descriptors: []*common.RateLimitDescriptor{saying("agent", "good"), tc.d}})
		if err != nil || answer.GetOverallCode() != pb.RateLimitResponse_OVER_LIMIT ||
			!strings.Contains(string(answer.GetRawBody()), tc.says) {
			t.Errorf("%s: %v, %v; want over the limit because %q", tc.name, answer, err, tc.says)
			continue
		}
		if codes := answer.GetStatuses(); codes[0].GetCode() != pb.RateLimitResponse_OK ||
			codes[1].GetCode() != pb.RateLimitResponse_OVER_LIMIT {
			t.Errorf("%s: statuses %v, want that only the second is over the limit", tc.name, codes)
		}
		for _, calls := range src.asked {
			for _, c := range calls {
				if c.Op != coordinator.CallCheck {
					t.Errorf("%s: %+v was charged although the request is refused", tc.name, c)
				}
			}
		}
	}
}

// What the answer says of limits is what the engine says.
func TestAnswers(t *testing.T) {
	src := &fake{answer: func(c coordinator.Call) coordinator.CallAnswer {
		switch c.Agent {
		case "over":
			return coordinator.CallAnswer{
				State: coordinator.CallRefused,
				Lacks: &coordinator.QuotaLack{Node: "pool/b", Dimension: coordinator.DimTotalTokens, Limit: "budget",
					Text: "it is used up"},
				Limits: []coordinator.QuotaLeft{
					{Node: "pool/b", Dimension: coordinator.DimTotalTokens, Limit: "budget", Quota: 1 << 40,
						Window: 31 * 24 * time.Hour, Reset: 90 * time.Second},
					{Node: "pool/b", Dimension: coordinator.DimTotalTokens, Limit: "rate", Quota: 5, Left: 5, Window: time.Second},
				},
			}
		default:
			return coordinator.CallAnswer{State: coordinator.CallPutBy,
				Limits: []coordinator.QuotaLeft{{Node: "pool/a", Dimension: coordinator.DimRequests, Limit: "rate", Quota: 50,
					Left: 7, Window: 10 * time.Second, Reset: time.Second}}}
		}
	}}
	answer, err := served(t, src).ShouldRateLimit(as(t.Context(), token),
		&pb.RateLimitRequest{Descriptors: []*common.RateLimitDescriptor{saying("agent", "under"),
			saying("agent", "over", "unit", "tokens")}})
	if err != nil {
		t.Fatal(err)
	}
	under, over := answer.GetStatuses()[0], answer.GetStatuses()[1]
	if l := under.GetCurrentLimit(); under.GetCode() != pb.RateLimitResponse_OK || l.GetName() != "pool/a:requests:rate" ||
		l.GetRequestsPerUnit() != 50 ||
		l.GetUnit() != pb.RateLimitResponse_RateLimit_SECOND || l.GetUnitMultiplier().GetValue() != 10 ||
		under.GetLimitRemaining() != 7 || under.GetDurationUntilReset().AsDuration() != time.Second {
		t.Errorf("the one with room: %v", under)
	}
	// It is whole in 90 s, and the caller is told up to 8 s more, less than a tenth: the same everywhere.
	wait := int(over.GetDurationUntilReset().AsDuration().Seconds())
	// 2⁴⁰ tokens a month are more than the protocol can tell: 2³² - 1.
	if l := over.GetCurrentLimit(); over.GetCode() != pb.RateLimitResponse_OVER_LIMIT ||
		l.GetName() != "pool/b:total_tokens:budget" || l.GetRequestsPerUnit() != 1<<32-1 ||
		l.GetUnit() != pb.RateLimitResponse_RateLimit_MONTH || l.GetUnitMultiplier() != nil ||
		over.GetLimitRemaining() != 0 || wait < 90 || wait > 98 {
		t.Errorf("the one without: %v", over)
	}
	got := make(map[string]string)
	for _, h := range answer.GetResponseHeadersToAdd() {
		got[h.GetKey()] = h.GetValue()
	}
	if got["Retry-After"] != strconv.Itoa(wait) ||
		!strings.Contains(got["Ratelimit"], fmt.Sprintf(`"pool/b:total_tokens:budget";r=0;t=%d`, wait)) ||
		!strings.Contains(got["Ratelimit-Policy"], "pool/b:total_tokens:budget") ||
		got["Content-Type"] != "application/problem+json" || !strings.Contains(string(answer.GetRawBody()), "it is used up") {
		t.Errorf("headers %v, body %s", got, answer.GetRawBody())
	}
}

// Seats have no window: they are sent without a unit, and it is not known when they are back.
func TestSeatsHaveNoWindow(t *testing.T) {
	src := &fake{answer: func(coordinator.Call) coordinator.CallAnswer {
		return coordinator.CallAnswer{
			State: coordinator.CallRefused,
			Lacks: &coordinator.QuotaLack{Node: "pool/b", Dimension: coordinator.DimConcurrency, Limit: "seats",
				Text: "they are used up"},
			Limits: []coordinator.QuotaLeft{{Node: "pool/b", Dimension: coordinator.DimConcurrency, Limit: "seats", Quota: 3}},
		}
	}}
	answer, err := served(t, src).ShouldRateLimit(as(t.Context(), token),
		&pb.RateLimitRequest{Descriptors: []*common.RateLimitDescriptor{saying("agent", "a")}})
	if err != nil {
		t.Fatal(err)
	}
	s := answer.GetStatuses()[0]
	if l := s.GetCurrentLimit(); l.GetName() != "pool/b:concurrency:seats" || l.GetRequestsPerUnit() != 3 ||
		l.GetUnit() != pb.RateLimitResponse_RateLimit_UNKNOWN || s.GetDurationUntilReset() != nil ||
		s.GetLimitRemaining() != 0 {
		t.Errorf("%v", s)
	}
	for _, h := range answer.GetResponseHeadersToAdd() {
		if h.GetKey() == "Ratelimit" && h.GetValue() != `"pool/b:concurrency:seats";r=0` ||
			h.GetKey() == "Ratelimit-Policy" && h.GetValue() != `"pool/b:concurrency:seats";q=3;qu="concurrent-requests"` {
			t.Errorf("%s: %s", h.GetKey(), h.GetValue())
		}
	}
}

// The headers of the older draft go to Envoy's client as well, where they are asked for.
func TestLegacyLimitHeaders(t *testing.T) {
	src := &fake{answer: func(coordinator.Call) coordinator.CallAnswer {
		return coordinator.CallAnswer{Limits: []coordinator.QuotaLeft{{Node: "pool/a", Dimension: coordinator.DimRequests,
			Limit: "rate", Quota: 50, Left: 7, Window: 10 * time.Second, Reset: 1500 * time.Millisecond}}}
	}}
	for _, on := range []bool{false, true} {
		answer, err := servedWith(t, src, Options{LegacyLimitHeaders: on}).ShouldRateLimit(as(t.Context(), token),
			&pb.RateLimitRequest{Descriptors: []*common.RateLimitDescriptor{saying("agent", "a")}})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, h := range answer.GetResponseHeadersToAdd() {
			if strings.HasPrefix(h.GetKey(), "Ratelimit-") && h.GetKey() != "Ratelimit-Policy" {
				got = append(got, h.GetKey()+": "+h.GetValue())
			}
		}
		// 1.5 s, rounded up
		want := map[bool]string{true: "Ratelimit-Limit: 50, Ratelimit-Remaining: 7, Ratelimit-Reset: 2"}[on]
		if all := strings.Join(got, ", "); all != want {
			t.Errorf("switched on: %v: headers %q, want %q", on, all, want)
		}
	}
}

// A request that may pass is told which of its provider's keys it is charged to; one of a provider
// without keys, or that may not pass, is told nothing.
func TestRequestIsToldItsKey(t *testing.T) {
	src := &fake{answer: func(c coordinator.Call) coordinator.CallAnswer {
		a := coordinator.CallAnswer{Provider: c.Usage.Provider, Pool: c.Usage.Provider}
		switch c.Agent {
		case "keyed":
			a.Provider, a.Pool = "openai@b", "openai@b/gpt-4o"
		case "over":
			a.State, a.Lacks = coordinator.CallRefused, &coordinator.QuotaLack{Node: "pool", Limit: "budget",
				Text: "it is used up"}
		}
		return a
	}}
	client := served(t, src)
	for _, c := range []struct {
		want        string
		descriptors []*common.RateLimitDescriptor
	}{
		{"x-quota-provider: openai@b", []*common.RateLimitDescriptor{saying("group", "g"),
			saying("agent", "keyed", "provider", "openai"), saying("agent", "keyed", "provider", "openai", "unit", "tokens")}},
		{"", []*common.RateLimitDescriptor{saying("agent", "plain", "provider", "lab")}},
		{"", []*common.RateLimitDescriptor{saying("agent", "keyed", "provider", "openai"), saying("agent", "over")}},
	} {
		answer, err := client.ShouldRateLimit(as(t.Context(), token), &pb.RateLimitRequest{Descriptors: c.descriptors})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, h := range answer.GetRequestHeadersToAdd() {
			got += h.GetKey() + ": " + h.GetValue()
		}
		if got != c.want {
			t.Errorf("the request gets %q, want %q", got, c.want)
		}
	}
}

// Only gateways are answered, within bounds; and what cannot be answered is an error.
func TestWhoIsNotAnswered(t *testing.T) {
	ok := &pb.RateLimitRequest{Descriptors: []*common.RateLimitDescriptor{saying("agent", "a")}}
	many := func(n int) *pb.RateLimitRequest {
		q := &pb.RateLimitRequest{}
		for range n {
			q.Descriptors = append(q.Descriptors, saying("agent", "a"))
		}
		return q
	}
	refund := saying("agent", "a")
	refund.IsNegativeHits = true
	for _, tc := range []struct {
		name string
		ctx  func(context.Context) context.Context
		q    *pb.RateLimitRequest
		err  error
		want codes.Code
	}{
		{"the token", func(c context.Context) context.Context { return as(c, token) }, ok, nil, codes.OK},
		{"64 descriptors", func(c context.Context) context.Context { return as(c, token) }, many(64), nil, codes.OK},
		{"no token", func(c context.Context) context.Context { return c }, ok, nil, codes.Unauthenticated},
		{"another token", func(c context.Context) context.Context { return as(c, strings.ToUpper(token)) }, ok, nil,
			codes.Unauthenticated},
		{"two tokens", func(c context.Context) context.Context { return as(as(c, token), token) }, ok, nil,
			codes.Unauthenticated},
		{"no descriptor", func(c context.Context) context.Context { return as(c, token) }, many(0), nil,
			codes.InvalidArgument},
		{"65 descriptors", func(c context.Context) context.Context { return as(c, token) }, many(65), nil,
			codes.InvalidArgument},
		{"something back", func(c context.Context) context.Context { return as(c, token) },
			&pb.RateLimitRequest{Descriptors: []*common.RateLimitDescriptor{refund}}, nil, codes.InvalidArgument},
		{"4 MiB", func(c context.Context) context.Context { return as(c, token) },
			&pb.RateLimitRequest{Domain: strings.Repeat("d", 4<<20)}, nil, codes.ResourceExhausted},
		{"4 MiB and no token", func(c context.Context) context.Context { return c },
			&pb.RateLimitRequest{Domain: strings.Repeat("d", 4<<20)}, nil, codes.Unauthenticated},
		{"nobody leads", func(c context.Context) context.Context { return as(c, token) }, ok,
			errors.New("dial tcp 10.1.2.3:8551: connection refused"), codes.Unavailable},
	} {
		src := &fake{err: tc.err}
		_, err := served(t, src).ShouldRateLimit(tc.ctx(t.Context()), tc.q)
		if status.Code(err) != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
		if strings.Contains(status.Convert(err).Message(), "10.1.2.3") {
			t.Errorf("%s: the gateway hears where the leader is: %v", tc.name, err)
		}
		if asked := len(src.asked) > 0; asked != (tc.want == codes.OK || tc.want == codes.Unavailable) {
			t.Errorf("%s: the engine was asked: %t", tc.name, asked)
		}
	}
}

// raw sends bytes as they are.
type raw struct{ encoding.CodecV2 }

func (r raw) Marshal(v any) (mem.BufferSlice, error) {
	if b, ok := v.([]byte); ok {
		return mem.BufferSlice{mem.SliceBuffer(b)}, nil
	}
	return r.CodecV2.Marshal(v)
}

// What a client can bring a gateway to send is over the limit if it cannot be read, and never an error: Envoy
// lets pass what is answered with an error, unless failure_mode_deny is set.
func TestWhatCannotBeReadIsOverTheLimit(t *testing.T) {
	long, err := proto.Marshal(&pb.RateLimitRequest{Descriptors: []*common.RateLimitDescriptor{
		saying("agent", "a", "path", strings.Repeat("x", 40<<10)),
		saying("agent", "b", "path", strings.Repeat("x", 40<<10))}})
	if err != nil {
		t.Fatal(err)
	}
	whole, err := proto.Marshal(&pb.RateLimitRequest{
		Descriptors: []*common.RateLimitDescriptor{saying("agent", "agent-1")}})
	if err != nil {
		t.Fatal(err)
	}
	for name, q := range map[string][]byte{
		"no text in UTF-8":                  bytes.ReplaceAll(whole, []byte("agent-1"), []byte("agent-\xff")),
		"two descriptors of a long header":  long,
		"cut short":                         whole[:len(whole)-1],
		"no message of the protocol at all": []byte("GET / HTTP/1.1"),
	} {
		src := &fake{}
		var answer pb.RateLimitResponse
		err := connected(t, src, Options{}).Invoke(as(t.Context(), token), pb.RateLimitService_ShouldRateLimit_FullMethodName,
			q, &answer,
			grpc.ForceCodecV2(raw{encoding.GetCodecV2("proto")}))
		if err != nil || answer.GetOverallCode() != pb.RateLimitResponse_OVER_LIMIT || len(answer.GetStatuses()) != 1 ||
			len(src.asked) != 0 {
			t.Errorf("%s: %v, %v, the engine was asked %d times; want over the limit", name, &answer, err, len(src.asked))
		}
		if !strings.Contains(string(answer.GetRawBody()), "no text in UTF-8, or the request has more than 65536 bytes") {
			t.Errorf("%s: the client is told %s", name, answer.GetRawBody())
		}
	}
}

// What has been used already stays charged, also if what is asked for with it is refused.
func TestChargesAreApart(t *testing.T) {
	src := &fake{answer: func(c coordinator.Call) coordinator.CallAnswer {
		if c.Op == coordinator.CallConsume {
			return coordinator.CallAnswer{State: coordinator.CallRefused}
		}
		return coordinator.CallAnswer{}
	}}
	answer, err := served(t, src).ShouldRateLimit(as(t.Context(), token),
		&pb.RateLimitRequest{Descriptors: []*common.RateLimitDescriptor{
			saying("agent", "a"), hitting(saying("agent", "b", "unit", "tokens", "mode", "charge"), 9), saying("agent", "c")}})
	if err != nil {
		t.Fatal(err)
	}
	if len(src.asked) != 2 || len(src.asked[0]) != 1 || src.asked[0][0].Agent != "b" || len(src.asked[1]) != 2 {
		t.Errorf("asked %+v, want b's charge, and then a and c together", src.asked)
	}
	for i, want := range []pb.RateLimitResponse_Code{pb.RateLimitResponse_OVER_LIMIT, pb.RateLimitResponse_OK,
		pb.RateLimitResponse_OVER_LIMIT} {
		if got := answer.GetStatuses()[i].GetCode(); got != want {
			t.Errorf("descriptor %d: %v, want %v", i, got, want)
		}
	}
}

// A fault in answering one question is reported, and the next is answered.
func TestPanicIsReported(t *testing.T) {
	reported := ""
	answer := recovering(func(cause any, _ []byte) { reported, _ = cause.(string) })
	_, err := answer(t.Context(), nil, nil, func(context.Context, any) (any, error) { panic("broken") })
	if status.Code(err) != codes.Internal || reported != "broken" {
		t.Errorf("%v, reported %q; want an internal error", err, reported)
	}
}

// Whatever a descriptor says, what comes out of it is within bounds, or it is refused.
func TestReadAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := append([]string{"path", ""}, keys[:]...)
		values := rapid.OneOf(rapid.SampledFrom([]string{"a", "tokens", "requests", "charge", "check", "cost_usd", ""}),
			rapid.String())
		var said []string
		for range rapid.IntRange(0, 8).Draw(t, "entries") {
			said = append(said, rapid.SampledFrom(keys).Draw(t, "key"), values.Draw(t, "value"))
		}
		d := saying(said...)
		if rapid.Bool().Draw(t, "own") {
			d.HitsAddend = wrapperspb.UInt64(rapid.Uint64().Draw(t, "hits"))
		}
		got := read(d, rapid.Uint32().Draw(t, "requests"))
		if got.asks && got.fault != "" {
			t.Fatalf("%+v asks and is at fault", got)
		}
		u := got.call.Usage
		if sum := u.Requests + u.InputTokens + u.OutputTokens + u.CostUSD*1e6; got.asks &&
			(sum < 0.5 || sum > maxHits+0.5 || got.call.Meant != coordinator.UsagePart) {
			t.Fatalf("%+v of %v", got, d)
		}
	})
}

// What has been used already is charged in any case, also beside a descriptor that is at fault; what is
// asked for is not.
func TestChargesBesideAFault(t *testing.T) {
	src := &fake{}
	answer, err := served(t, src).ShouldRateLimit(as(t.Context(), token),
		&pb.RateLimitRequest{Descriptors: []*common.RateLimitDescriptor{
			hitting(saying("agent", "used", "unit", "tokens", "mode", "charge"), 700), saying("agent", "asks"),
			saying("agent", "a", "unit", "pounds"),
		}})
	if err != nil || answer.GetOverallCode() != pb.RateLimitResponse_OVER_LIMIT {
		t.Fatalf("%v, %v; want over the limit", answer, err)
	}
	ops := make(map[coordinator.AgentID]coordinator.CallOp)
	for _, calls := range src.asked {
		for _, c := range calls {
			ops[c.Agent] = c.Op
		}
	}
	want := map[coordinator.AgentID]coordinator.CallOp{"used": coordinator.CallCharge, "asks": coordinator.CallCheck}
	if !reflect.DeepEqual(ops, want) {
		t.Errorf("asked %v, want %v", ops, want)
	}
}

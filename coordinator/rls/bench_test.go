package rls

import (
	"context"
	"net"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"taskbus/coordinator"
	"taskbus/coordinator/gateway"
)

// echo answers every question at once and alike: what gRPC itself takes.
type echo struct {
	pb.UnimplementedRateLimitServiceServer
}

func (echo) ShouldRateLimit(context.Context, *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	return &pb.RateLimitResponse{OverallCode: pb.RateLimitResponse_OK,
			Statuses: []*pb.RateLimitResponse_DescriptorStatus{{Code: pb.RateLimitResponse_OK},
				{Code: pb.RateLimitResponse_OK}}},
		nil
}

// BenchmarkShouldRateLimit is a question with two descriptors, 64 at a time: what this package takes
// beside a bare echo, with a coordinator that answers at once.
func BenchmarkShouldRateLimit(b *testing.B) {
	left := coordinator.QuotaLeft{Node: "pool/team/agent-1", Dimension: coordinator.DimRequests, Limit: "rate", Quota: 50,
		Left: 7, Window: time.Second, Reset: time.Second}
	src := &fast{coordinator.CallAnswer{Limits: []coordinator.QuotaLeft{left, left}}}
	for name, register := range map[string]func(*grpc.Server){
		"echo": func(s *grpc.Server) { pb.RegisterRateLimitServiceServer(s, echo{}) },
		"taskbus": func(s *grpc.Server) {
			pb.RegisterRateLimitServiceServer(s, newLimiter(src, Options{}))
		},
	} {
		b.Run(name, func(b *testing.B) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			server := grpc.NewServer(options(gateway.NewRoster([]byte(token), nil), Options{})...)
			register(server)
			ended := make(chan error, 1)
			go func() { ended <- server.Serve(listener) }()
			defer func() { server.Stop(); <-ended }()
			conn, err := grpc.NewClient("passthrough:///"+listener.Addr().String(),
				grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			client := pb.NewRateLimitServiceClient(conn)
			ctx := as(context.Background(), token)
			q := &pb.RateLimitRequest{Domain: "taskbus", Descriptors: []*common.RateLimitDescriptor{
				saying("agent", "agent-1", "provider", "openai", "model", "gpt-4o"),
				hitting(saying("agent", "agent-1", "provider", "openai", "model", "gpt-4o", "unit", "tokens"), 0)}}
			b.SetParallelism(32) // 64 on two cores
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					if answer, err := client.ShouldRateLimit(ctx, q); err != nil ||
						answer.GetOverallCode() != pb.RateLimitResponse_OK {
						b.Errorf("%v, %v", answer, err)
						return
					}
				}
			})
		})
	}
}

// fast grants everything.
type fast struct{ answer coordinator.CallAnswer }

func (f *fast) AskCalls(_ context.Context, calls []coordinator.Call) ([]coordinator.CallAnswer, error) {
	answers := make([]coordinator.CallAnswer, len(calls))
	for i := range answers {
		answers[i] = f.answer
	}
	return answers, nil
}

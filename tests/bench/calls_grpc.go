package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

// callGateway is the token of gateways, which Envoy is.
const callGateway = "bench-gateway-bench-gateway-bench-gateway"

// rpcQuestion is what Envoy asks before a call.
var rpcQuestion = &pb.RateLimitRequest{Domain: "taskbus", HitsAddend: 1, Descriptors: []*common.RateLimitDescriptor{{Entries: []*common.RateLimitDescriptor_Entry{
	{Key: "agent", Value: callAgent}, {Key: "provider", Value: "openai"}, {Key: "model", Value: "gpt-4o"},
}}}}

// grpcEcho answers that all is well, and looks at nothing.
func grpcEcho(ctx context.Context, address string, out io.Writer) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listen at %s: %w", address, err)
	}
	s := grpc.NewServer()
	pb.RegisterRateLimitServiceServer(s, alwaysWell{})
	go func() {
		<-ctx.Done()
		s.Stop()
	}()
	fmt.Fprintln(out, "ready")
	return s.Serve(l)
}

type alwaysWell struct {
	pb.UnimplementedRateLimitServiceServer
}

func (alwaysWell) ShouldRateLimit(_ context.Context, r *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	answer := &pb.RateLimitResponse{OverallCode: pb.RateLimitResponse_OK}
	for range r.Descriptors {
		answer.Statuses = append(answer.Statuses, &pb.RateLimitResponse_DescriptorStatus{Code: pb.RateLimitResponse_OK})
	}
	return answer, nil
}

// loadRPC asks as loadHTTP does, over as many connections.
func loadRPC(ctx context.Context, at string, length time.Duration) (run callRun, err error) {
	clients := make(chan pb.RateLimitServiceClient, callConnections)
	for range callConnections {
		conn, dialErr := grpc.NewClient("passthrough:///"+at, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if dialErr != nil {
			return run, fmt.Errorf("connect to %s: %w", at, dialErr)
		}
		defer func() { err = errors.Join(err, conn.Close()) }()
		clients <- pb.NewRateLimitServiceClient(conn)
	}
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+callGateway)
	return hammer(ctx, length, func(ctx context.Context) error {
		client := <-clients
		defer func() { clients <- client }()
		answer, err := client.ShouldRateLimit(ctx, rpcQuestion)
		if err == nil && answer.OverallCode != pb.RateLimitResponse_OK {
			err = fmt.Errorf("answered %v", answer)
		}
		return err
	})
}

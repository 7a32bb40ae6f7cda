package rls

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"runtime/debug"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"taskbus/coordinator/gateway"
)

// The limits of one connection. They bound what a client costs that is slow, dead, or means harm.
const (
	connectTimeout = 5 * time.Second
	idleTimeout    = 10 * time.Minute
	pingEvery      = 10 * time.Second // at most, by a client
	maxStreams     = 4096             // questions of one connection at a time
	maxHeaders     = 16 << 10
	// maxMessage is what is taken of a gateway at all, in bytes: more than Envoy's clients can have it send.
	// Others than gateways are refused before their message is read.
	maxMessage  = 4 << 20
	stopTimeout = 3 * time.Second
)

// Options are what New can do without.
type Options struct {
	// TLS makes the port one of TLS; nil: it is plain.
	TLS *tls.Config
	// LegacyLimitHeaders: answers have RateLimit-Limit, -Remaining and -Reset as well.
	LegacyLimitHeaders bool
	// Report is called with a panic and its stack, from the question's goroutine; nil: it is not reported.
	Report func(cause any, stack []byte)
}

// Serve answers on the listener until ctx ends, then stops accepting, lets the questions in progress
// be answered for up to 3 s, and returns nil. Any other end is an error. Serve closes the listener
// in every case. Only gateways are answered.
func Serve(ctx context.Context, listener net.Listener, src Source, gateways *gateway.Roster, opts Options) error {
	server := grpc.NewServer(options(gateways, opts)...)
	pb.RegisterRateLimitServiceServer(server, newLimiter(src, opts))
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serving the rate-limit service on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	late := time.AfterFunc(stopTimeout, server.Stop)
	server.GracefulStop()
	late.Stop()
	if err := <-ended; err != nil {
		return fmt.Errorf("stopping the rate-limit service on %s: %w", listener.Addr(), err)
	}
	return nil
}

func options(gateways *gateway.Roster, opts Options) []grpc.ServerOption {
	all := []grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec()), grpc.InTapHandle(onlyGateways(gateways)),
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxHeaderListSize(maxHeaders), grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(connectTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idleTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingEvery, PermitWithoutStream: true}),
		grpc.UnaryInterceptor(recovering(opts.Report)),
	}
	if opts.TLS != nil {
		all = append(all, grpc.Creds(credentials.NewTLS(opts.TLS)))
	}
	return all
}

// recovering turns a panic into an error and a report: one question must not end the coordinator.
func recovering(report func(any, []byte)) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, answer grpc.UnaryHandler) (response any,
		err error) {
		defer func() {
			if cause := recover(); cause != nil {
				if report != nil {
					report(cause, debug.Stack())
				}
				err = status.Error(codes.Internal, "the fault is in the coordinator's log")
			}
		}()
		return answer(ctx, request)
	}
}

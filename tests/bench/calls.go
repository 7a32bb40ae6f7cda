package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// What a question about an LLM call costs: reserve over HTTP, from many connections at once, with
// everything in the journal before it is answered. Beside it, in the same run and behind the same
// HTTP server of Go: a handler that gives back what it was sent, and a token bucket in Lua in Redis,
// which keeps nothing on disk.

// The targets: how much of an echo's rate, and how many times its 99th percentile.
const (
	targetCalls        = 0.6
	targetCallsLatency = 2.0
	targetRateLimit    = 0.6
)

const (
	callConnections = 64
	callSeconds     = 6
	callPairs       = 3
	callAgent       = "agent_1"
	callSecret      = "bench-bench-bench-bench-bench-bench-bench"
	callTTL         = 2 // seconds: what is reserved ends while it is measured
)

// The contenders.
const (
	callEcho    = "echo"
	callTaskbus = "taskbus"
	callRedis   = "redis"
	rpcEcho     = "grpc-echo"
	rpcTaskbus  = "grpc-taskbus"
)

// callRun is one contender under load.
type callRun struct {
	Subject   string  `json:"subject"`
	PerSecond float64 `json:"per_second"`
	P50Millis float64 `json:"p50_ms"`
	P99Millis float64 `json:"p99_ms"`
	Calls     int     `json:"calls"`
}

// callsFile has three levels with limits in four dimensions, and room for everything.
const callsFile = `
reservation_ttl_seconds: 2
pool:
  limits:
    requests: [{amount: 900000000000000, per: month}, {rate: 900000000000, per: second}]
    total_tokens: [{amount: 900000000000000, per: month}, {rate: 900000000000, per: second}]
    cost_usd: {amount: 900000000, per: month}
groups: [{id: team-a, weight: 3}, {id: team-b, weight: 1}]
agents: [{id: agent_1, group_id: team-a}, {id: agent_2, group_id: team-b}]
providers:
  - provider: openai
    limits: {requests: {rate: 900000000, per: second}}
    models: [{model: gpt-4o, limits: {total_tokens: {rate: 900000000000, per: minute}}}]
prices: [{provider: openai, model: gpt-4o, input_per_million_tokens: 2.5, output_per_million_tokens: 10}]
`

// collectCalls measures all of it, interleaved.
func (b *bench) collectCalls(ctx context.Context, r *results) error {
	pairs, length := callPairs, callSeconds*time.Second
	if b.options.quick {
		pairs, length = 1, 3*time.Second
	}
	path := filepath.Join(b.dir, "calls-quotas.yaml")
	if err := os.WriteFile(path, []byte(callsFile), 0o600); err != nil {
		return fmt.Errorf("write the quotas: %w", err)
	}
	redis, err := startRedis(ctx, b)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, redis.stop()) }()
	for i := range pairs {
		for _, c := range b.callContenders(path, redis.address) {
			run, err := b.callsOf(ctx, c, length)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			b.say("calls %d/%d %-12s %7.0f/s p50 %5.2f ms p99 %6.2f ms", i+1, pairs, c.name, run.PerSecond, run.P50Millis, run.P99Millis)
			r.Calls = append(r.Calls, run)
		}
	}
	return err
}

// callContender is one server, and how it is asked.
type callContender struct {
	name  string
	start func(ctx context.Context) (server, error)
	load  func(ctx context.Context, at string, length time.Duration) (callRun, error)
}

// server is a process that answers at an address.
type server struct {
	address string
	stop    func() error
}

func (b *bench) callContenders(quotas, redis string) []callContender {
	taskbus := func(ctx context.Context) (server, error) { return b.startCallTaskbus(ctx, quotas) }
	return []callContender{
		{callEcho, func(ctx context.Context) (server, error) { return b.startCallRole(ctx, "httpecho", "") }, loadHTTP},
		{callTaskbus, taskbus, loadHTTP},
		{rpcEcho, func(ctx context.Context) (server, error) { return b.startCallRole(ctx, "grpcecho", "") }, loadRPC},
		{rpcTaskbus, func(ctx context.Context) (server, error) { return b.startRPCTaskbus(ctx, quotas) }, loadRPC},
		{callRedis, func(ctx context.Context) (server, error) { return b.startCallRole(ctx, "httpredis", redis) }, loadHTTP},
	}
}

// callsOf starts a contender, warms it up, and measures it.
func (b *bench) callsOf(ctx context.Context, c callContender, length time.Duration) (run callRun, err error) {
	s, err := c.start(ctx)
	if err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if _, err := c.load(ctx, s.address, length/4); err != nil {
		return run, err
	}
	run, err = c.load(ctx, s.address, length)
	run.Subject = c.name
	return run, err
}

// judgeCalls makes the verdicts about calls.
func (r *results) judgeCalls() []verdict {
	of := func(name string, f func(callRun) float64) []float64 {
		return collect(slices.DeleteFunc(slices.Clone(r.Calls), func(c callRun) bool { return c.Subject != name }), f)
	}
	rate, p99 := func(c callRun) float64 { return c.PerSecond }, func(c callRun) float64 { return c.P99Millis }
	compare := func(what, target, word, subject, with string, f func(callRun) float64, good func(ratio float64) bool) verdict {
		v := verdict{What: what, Target: target, Word: notMeasured}
		a, b := of(with, f), of(subject, f)
		if len(b) == 0 || len(a) == 0 {
			return v
		}
		ratios := pairwise(a, b, func(a, b float64) float64 { return b / a })
		return v.measured(good(median(ratios)), fmt.Sprintf("%.2f", median(ratios)),
			fmt.Sprintf("rounds %.2f to %.2f; %.4g and %.4g %s", slices.Min(ratios), slices.Max(ratios), median(b), median(a), word))
	}
	above := func(least float64) func(float64) bool { return func(x float64) bool { return x >= least } }
	return []verdict{
		compare(fmt.Sprintf("reserve over HTTP, journalled, %d connections: rate, of an echo's", callConnections), fmt.Sprintf("≥ %.1f", targetCalls), "calls/s", callTaskbus, callEcho, rate, above(targetCalls)),
		compare("the same: p99, of an echo's", fmt.Sprintf("≤ %.0f", targetCallsLatency), "ms", callTaskbus, callEcho, p99, func(x float64) bool { return x <= targetCallsLatency }),
		compare("the same: rate, of a token bucket's in Redis", noTarget, "calls/s", callTaskbus, callRedis, rate, above(0)),
		compare("the same: p99, of a token bucket's in Redis", noTarget, "ms", callTaskbus, callRedis, p99, above(0)),
		compare("ShouldRateLimit over gRPC: rate, of an echo's", fmt.Sprintf("≥ %.1f", targetRateLimit), "calls/s", rpcTaskbus, rpcEcho, rate, above(targetRateLimit)),
	}
}

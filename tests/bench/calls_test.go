package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"taskbus/coordinator/credential"
	"taskbus/coordinator/httpapi"
)

// What a question about an LLM call costs: reserve over HTTP, from many connections at once, with everything in the
// journal before it is answered. Beside it, behind the same HTTP server of Go: a handler that gives back what it was
// sent, and a token bucket in Lua in Redis, which keeps nothing on disk. Likewise Envoy's question over gRPC.

const (
	connections = 64
	callSecret  = "bench-bench-bench-bench-bench-bench-bench"
	callEnv     = "TASKBUS_AGENT_SECRET=" + callSecret
	callGateway = "bench-gateway-bench-gateway-bench-gateway"
)

// callQuotas has three levels with limits in four dimensions, and room for everything. What is reserved ends while it
// is measured.
const callQuotas = `
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

var (
	callBody = []byte(`{"agent_id":"agent_1","provider":"openai","model":"gpt-4o","input_tokens":1200,` +
		`"output_tokens":300,"ttl_seconds":2}`)
	callEntries = []*common.RateLimitDescriptor_Entry{
		{Key: "agent", Value: "agent_1"}, {Key: "provider", Value: "openai"}, {Key: "model", Value: "gpt-4o"},
	}
	callRPC = &pb.RateLimitRequest{Domain: "taskbus", HitsAddend: 1,
		Descriptors: []*common.RateLimitDescriptor{{Entries: callEntries}}}
)

func callToken() string { return "Bearer " + credential.AgentToken([]byte(callSecret), "agent_1") }

// loader gives a function that asks the server at an address once; it is called from all connections.
type loader func(r *rig, address string) func(context.Context) error

// echoes has a process in a role asked, with an argument behind its address.
func echoes(role string, load loader) func(*rig) {
	return func(r *rig) {
		address := freeAddress()
		arg := address
		if role == "redis" {
			arg += " " + r.redis()
		}
		r.others = append([]*process{r.role(role + " " + arg)}, r.others...) // it ends before Redis
		r.ask(load(r, address))
	}
}

// reserve asks the service over HTTP, rateLimits as Envoy does.
func reserve(r *rig) {
	r.start()
	r.ask(loadHTTP(r, strings.TrimPrefix(r.service.http, "http://")))
}

func rateLimits(r *rig) {
	address := freeAddress()
	r.scenario.env = []string{"TASKBUS_GATEWAY_TOKEN=" + callGateway, "TASKBUS_RLS=" + address}
	r.start()
	r.ask(loadRPC(r, address))
}

// ask has all connections ask for a while, each as soon as it has its answer; before that to warm up.
func (r *rig) ask(once func(context.Context) error) {
	length := shorter(8 * time.Second)
	for _, length := range []time.Duration{length / 4, length} {
		ctx, cancel := context.WithCancelCause(r.ctx)
		var mu sync.Mutex
		var all []time.Duration
		var group sync.WaitGroup
		begun := time.Now()
		for range connections {
			group.Go(func() {
				var mine []time.Duration
				for at := time.Now(); at.Sub(begun) < length && ctx.Err() == nil; {
					if err := once(ctx); err != nil {
						cancel(err)
					}
					now := time.Now()
					mine, at = append(mine, now.Sub(at)), now
				}
				mu.Lock()
				defer mu.Unlock()
				all = append(all, mine...)
			})
		}
		group.Wait()
		check(context.Cause(ctx), "ask")
		cancel(nil)
		slices.Sort(all)
		r.ReportMetric(float64(len(all))/time.Since(begun).Seconds(), "calls/s")
		r.ReportMetric(float64(percentile(all, 50))/1e6, "p50-ms")
		r.ReportMetric(float64(percentile(all, 99))/1e6, "p99-ms")
	}
}

func loadHTTP(r *rig, address string) func(context.Context) error {
	transport := &http.Transport{MaxIdleConnsPerHost: connections, DisableCompression: true}
	context.AfterFunc(r.ctx, transport.CloseIdleConnections)
	client, token, url := &http.Client{Transport: transport}, callToken(), "http://"+address+"/v1/quota/reserve"
	return func(ctx context.Context) error {
		q, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(callBody))
		if err != nil {
			return err
		}
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("Authorization", token)
		answer, err := client.Do(q)
		if err != nil {
			return err
		}
		defer func() { _ = answer.Body.Close() }()
		body, err := io.ReadAll(answer.Body)
		if err == nil && answer.StatusCode != http.StatusOK {
			err = fmt.Errorf("answered %d: %.200s", answer.StatusCode, body)
		}
		return err
	}
}

func loadRPC(r *rig, address string) func(context.Context) error {
	clients := make(chan pb.RateLimitServiceClient, connections)
	for range connections {
		plain := grpc.WithTransportCredentials(insecure.NewCredentials())
		conn := must(grpc.NewClient("passthrough:///"+address, plain))
		context.AfterFunc(r.ctx, func() { _ = conn.Close() })
		clients <- pb.NewRateLimitServiceClient(conn)
	}
	return func(ctx context.Context) error {
		client := <-clients
		defer func() { clients <- client }()
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+callGateway)
		answer, err := client.ShouldRateLimit(ctx, callRPC)
		if err == nil && answer.OverallCode != pb.RateLimitResponse_OK {
			err = fmt.Errorf("answered %v", answer)
		}
		return err
	}
}

// serve is a process that answers over HTTP until ctx ends.
func serve(ctx context.Context, address string, handler http.HandlerFunc) {
	l := must(net.Listen("tcp", address))
	sayReady()
	check(httpapi.Serve(withInput(ctx, func(string) {}), l, handler))
}

// httpEcho gives back what it is sent.
func httpEcho(ctx context.Context, _, address string) {
	serve(ctx, address, func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	})
}

type alwaysWell struct {
	pb.UnimplementedRateLimitServiceServer
}

func (alwaysWell) ShouldRateLimit(_ context.Context, q *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	answer := &pb.RateLimitResponse{OverallCode: pb.RateLimitResponse_OK}
	for range q.Descriptors {
		answer.Statuses = append(answer.Statuses, &pb.RateLimitResponse_DescriptorStatus{Code: pb.RateLimitResponse_OK})
	}
	return answer, nil
}

// grpcEcho answers that all is well, and looks at nothing.
func grpcEcho(ctx context.Context, _, address string) {
	l, s := must(net.Listen("tcp", address)), grpc.NewServer()
	pb.RegisterRateLimitServiceServer(s, alwaysWell{})
	context.AfterFunc(withInput(ctx, func(string) {}), s.Stop)
	sayReady()
	check(s.Serve(l))
}

// bucketScript is a token bucket, as it is usually written for Redis: one key, its level and when that was.
const bucketScript = `
local rate, burst, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local t = redis.call('TIME')
local now = t[1] * 1000 + t[2] / 1000
local state = redis.call('HMGET', KEYS[1], 'level', 'at')
local level = tonumber(state[1]) or burst
local at = tonumber(state[2]) or now
level = math.min(burst, level + (now - at) * rate / 1000)
local ok = level >= cost
if ok then level = level - cost end
redis.call('HSET', KEYS[1], 'level', level, 'at', now)
redis.call('PEXPIRE', KEYS[1], 60000)
return {ok and 1 or 0, math.floor(level)}
`

// httpRedis answers as Taskbus does, in short, out of one bucket in Redis; it knows its callers by the same tokens.
// arg is its own address and that of Redis.
func httpRedis(ctx context.Context, _, arg string) {
	address, at, _ := strings.Cut(arg, " ")
	client := redis.NewClient(&redis.Options{Addr: at, PoolSize: connections})
	script, token := redis.NewScript(bucketScript), callToken()
	check(script.Load(ctx, client).Err())
	serve(ctx, address, func(w http.ResponseWriter, q *http.Request) {
		var asked struct {
			Agent  string `json:"agent_id"`
			Input  int64  `json:"input_tokens"`
			Output int64  `json:"output_tokens"`
		}
		err := json.NewDecoder(q.Body).Decode(&asked)
		const most = 900_000_000_000
		got, errRedis := script.EvalSha(q.Context(), client, []string{"bucket:" + asked.Agent}, most, most,
			asked.Input+asked.Output).Int64Slice()
		if err = errors.Join(err, errRedis); err != nil || got[0] != 1 || q.Header.Get("Authorization") != token {
			http.Error(w, fmt.Sprint(got, err), http.StatusTooManyRequests)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"granted": true, "remaining": got[1]})
	})
}

// redis runs a Redis in memory only, and gives its address.
func (r *rig) redis() string {
	address := freeAddress()
	host, port, _ := net.SplitHostPort(address)
	p, err := startProcess("redis", filepath.Join(r.dir, "redis.log"), nil, "redis-server", "--bind", host,
		"--port", port, "--save", "", "--appendonly", "no", "--dir", r.dir)
	check(err, "is redis-server installed? (Debian: sudo apt-get install redis-server)")
	r.others = append(r.others, p)
	client := redis.NewClient(&redis.Options{Addr: address})
	defer func() { _ = client.Close() }()
	r.await(p, "Redis answers", 1, 50*time.Millisecond, func() int { return one(client.Ping(r.ctx).Err() == nil) })
	return address
}

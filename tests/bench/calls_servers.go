package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"taskbus/coordinator/credential"
	"taskbus/coordinator/httpapi"
)

// startCallTaskbus runs the service with the quotas and the secret of the calls. Nothing else
// happens meanwhile: no agent reports.
func (b *bench) startCallTaskbus(ctx context.Context, quotas string) (server, error) {
	s, err := startTaskbus(ctx, b, fleetFile(100, skills), unlimited(0), quotaEnv+"="+quotas, "TASKBUS_AGENT_SECRET="+callSecret)
	if err != nil {
		return server{}, err
	}
	return server{s.http, s.stop}, nil
}

// startRPCTaskbus is likewise with Envoy's service, whose address it gives.
func (b *bench) startRPCTaskbus(ctx context.Context, quotas string) (server, error) {
	address, err := freeAddress()
	if err != nil {
		return server{}, err
	}
	s, err := startTaskbus(ctx, b, fleetFile(100, skills), unlimited(0), quotaEnv+"="+quotas, "TASKBUS_GATEWAY_TOKEN="+callGateway, "TASKBUS_RLS="+address)
	if err != nil {
		return server{}, err
	}
	return server{address, s.stop}, nil
}

// startCallRole runs this program as one of the servers below.
func (b *bench) startCallRole(ctx context.Context, role, arg string) (server, error) {
	address, err := freeAddress()
	if err != nil {
		return server{}, err
	}
	p, err := b.startRole(ctx, role, strings.TrimSpace(address+" "+arg))
	if err != nil {
		return server{}, err
	}
	if role != "grpcecho" {
		address = "http://" + address
	}
	return server{address, p.stop}, nil
}

// freeAddress is one on which nobody listens at the moment.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}

// serveHTTP answers until ctx ends.
func serveHTTP(ctx context.Context, address string, handler http.Handler, out io.Writer) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listen at %s: %w", address, err)
	}
	fmt.Fprintln(out, "ready")
	return httpapi.Serve(ctx, l, handler)
}

// httpEcho gives back what it is sent.
func httpEcho(ctx context.Context, address string, out io.Writer) error {
	return serveHTTP(ctx, address, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	}), out)
}

// bucketScript is a token bucket, as it is usually written for Redis: one key, its level and when
// that was.
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

// httpRedis answers as Taskbus does, in short, out of one bucket in Redis; it knows its callers by
// the same tokens. arg is its own address and that of Redis.
func httpRedis(ctx context.Context, arg string, out io.Writer) error {
	address, at, _ := strings.Cut(arg, " ")
	client := redis.NewClient(&redis.Options{Addr: at, PoolSize: callConnections})
	defer func() { _ = client.Close() }()
	script := redis.NewScript(bucketScript)
	if err := script.Load(ctx, client).Err(); err != nil {
		return fmt.Errorf("load the script into Redis: %w", err)
	}
	token := credential.AgentToken([]byte(callSecret), callAgent)
	return serveHTTP(ctx, address, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Agent  string `json:"agent_id"`
			Input  int64  `json:"input_tokens"`
			Output int64  `json:"output_tokens"`
		}
		if r.Header.Get("Authorization") != "Bearer "+token {
			http.Error(w, "not authorised", http.StatusUnauthorized)
			return
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		got, err := script.EvalSha(r.Context(), client, []string{"bucket:" + asked.Agent}, 900_000_000_000, 900_000_000_000, asked.Input+asked.Output).Int64Slice()
		if err != nil || len(got) != 2 || got[0] != 1 {
			http.Error(w, fmt.Sprint(got, err), http.StatusTooManyRequests)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"granted": true, "remaining": got[1]})
	}), out)
}

// redisServer is a Redis of our own, in memory only.
type redisServer struct {
	address string
	process *process
}

// startRedis runs Debian's Redis.
func startRedis(ctx context.Context, b *bench) (*redisServer, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	p, err := startProcess(ctx, "redis", b.logPath("redis"), nil, "redis-server", "--bind", host, "--port", port, "--save", "", "--appendonly", "no", "--dir", b.dir)
	if err != nil {
		return nil, fmt.Errorf("%w; is redis-server installed? (Debian: sudo apt-get install redis-server)", err)
	}
	client := redis.NewClient(&redis.Options{Addr: address})
	defer func() { _ = client.Close() }()
	for range 100 {
		if err = client.Ping(ctx).Err(); err == nil {
			return &redisServer{address, p}, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil, errors.Join(fmt.Errorf("redis does not answer: %w", err), p.stop())
}

func (r *redisServer) stop() error { return r.process.stop() }

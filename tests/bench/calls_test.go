package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"taskbus/coordinator/credential"
	"taskbus/coordinator/httpapi"
)

// What a request for an LLM call costs: reserve over HTTP, from many connections at once, with everything in the
// journal before it is answered. Beside it, behind the same HTTP server, a handler that returns what it was sent.

const (
	connections = 64
	callSecret  = "bench-bench-bench-bench-bench-bench-bench"
	callEnv     = "TASKBUS_AGENT_SECRET=" + callSecret
	echoEnv     = "TASKBUS_BENCH_ADDRESS"
	callBody    = `{"agent_id":"agent_1","provider":"openai","model":"gpt-4o","input_tokens":1200,"output_tokens":300,` +
		`"ttl_seconds":2}`
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

func askTaskbus(r *rig) {
	r.start()
	r.ask(r.service.http)
}

func askEcho(r *rig) {
	address := freeAddress()
	r.service = &service{process: r.role("echo", echoEnv+"="+address)}
	r.await(r.service.process, "the echo listens", 1, 10*time.Millisecond, func() int {
		conn, err := net.Dial("tcp", address)
		return one(err == nil && conn.Close() == nil)
	})
	r.ask("http://" + address)
}

// echo is a process that returns what it is sent.
func echo(ctx context.Context) {
	l := must(net.Listen("tcp", os.Getenv(echoEnv)))
	check(httpapi.Serve(ctx, l, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	})))
}

// ask has all connections ask for a while, each as soon as it has its answer; before that to warm up.
func (r *rig) ask(base string) {
	length := shorter(8 * time.Second)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections, DisableCompression: true}}
	defer client.CloseIdleConnections()
	token := "Bearer " + credential.AgentToken([]byte(callSecret), "agent_1")
	for _, length := range []time.Duration{length / 4, length} {
		var answered atomic.Int64
		var group sync.WaitGroup
		errs, begun := make(chan error, connections), time.Now()
		for range connections {
			group.Go(func() {
				errs <- caught(func() {
					for time.Since(begun) < length {
						askOnce(client, base+"/v1/quota/reserve", token)
						answered.Add(1)
					}
				})
			})
		}
		group.Wait()
		for range connections {
			check(<-errs, "ask")
		}
		r.ReportMetric(float64(answered.Load())/time.Since(begun).Seconds(), "calls/s")
	}
}

func askOnce(client *http.Client, url, token string) {
	q := must(http.NewRequest(http.MethodPost, url, bytes.NewReader([]byte(callBody))))
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Authorization", token)
	answer := must(client.Do(q))
	defer func() { _ = answer.Body.Close() }()
	if body := must(io.ReadAll(answer.Body)); answer.StatusCode != http.StatusOK {
		panic(fmt.Errorf("answered %d: %.200s", answer.StatusCode, body))
	}
}

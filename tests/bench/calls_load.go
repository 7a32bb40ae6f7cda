package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"taskbus/coordinator/credential"
)

// callBody is what everybody is asked.
var callBody = []byte(fmt.Sprintf(`{"agent_id":%q,"provider":"openai","model":"gpt-4o","input_tokens":1200,"output_tokens":300,"ttl_seconds":%d}`, callAgent, callTTL))

// loadHTTP asks from all connections for a while, each as soon as it has its answer.
func loadHTTP(ctx context.Context, at string, length time.Duration) (callRun, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: callConnections, MaxConnsPerHost: callConnections, DisableCompression: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	token := "Bearer " + credential.AgentToken([]byte(callSecret), callAgent)
	return hammer(ctx, length, func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, at+"/v1/quota/reserve", bytes.NewReader(callBody))
		if err != nil {
			return err
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", token)
		response, err := client.Do(r)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(response.Body)
		if closeErr := response.Body.Close(); err == nil {
			err = closeErr
		}
		if err == nil && response.StatusCode != http.StatusOK {
			err = fmt.Errorf("answered %d: %.200s", response.StatusCode, body)
		}
		return err
	})
}

// hammer has callConnections ask for a while. The first error ends it.
func hammer(ctx context.Context, length time.Duration, ask func(context.Context) error) (run callRun, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	var all []time.Duration
	var wg sync.WaitGroup
	begun := time.Now()
	for range callConnections {
		wg.Go(func() {
			var mine []time.Duration
			for at := time.Now(); at.Sub(begun) < length && ctx.Err() == nil; {
				if err := ask(ctx); err != nil {
					cancel(err)
					return
				}
				now := time.Now()
				mine = append(mine, now.Sub(at))
				at = now
			}
			mu.Lock()
			all = append(all, mine...)
			mu.Unlock()
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return run, err
	}
	slices.Sort(all)
	ms := func(part float64) float64 { return all[int(part*float64(len(all)-1))].Seconds() * 1000 }
	return callRun{PerSecond: float64(len(all)) / time.Since(begun).Seconds(), P50Millis: ms(0.5), P99Millis: ms(0.99), Calls: len(all)}, nil
}

package failover

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/tests/support/brokertest"
)

// gatewayToken lets the tests ask for quota on behalf of any agent.
const gatewayToken = "failover-tests-ask-for-quota-with-this-token"

// Callers ask at one time, each for estimate tokens; there are enough for half of them. callTTL is
// how long a reservation stands of which no end is reported. It is longer than a caller may have
// to ask again for an answer that was lost with the leader: what was granted would have ended by then.
const (
	callers    = 1000
	callTokens = callers / 2 * estimate
	callTTL    = 20 * time.Second
)

const callQuotas = `
pool:
  limits: {total_tokens: {amount: 50000, per: year}}
groups: [{id: project_alpha}, {id: project_beta}]
reservation_ttl_seconds: 20
`

// TestCallsSurvive kills the leader in the middle of 1,000 concurrent calls, each of which asks the
// leader and the standby in turn until it has an answer. Whatever was granted is settled with the
// next leader, once; never is more used and set aside than there is; and what is not settled is
// given back when its time is over: nothing leaks.
func TestCallsSurvive(t *testing.T) {
	t.Parallel()
	r := newRig(t, brokertest.Vhost(t).URL)
	if err := os.WriteFile(filepath.Join(filepath.Dir(r.config), "quotas.yaml"), []byte(callQuotas), 0o600); err != nil {
		t.Fatal(err)
	}
	leader := r.launch("the leader", r.url)
	leader.awaitState("active")
	standby := r.launch("the standby", r.url)
	standby.awaitState("standby")

	c := &crowd{r: r, at: []string{leader.base, standby.base}, client: &http.Client{
		Timeout: 5 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: callers},
	}}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() { c.call(ctx, i) })
	}
	r.eventually(patience, "some calls are granted", func() (bool, string) {
		return c.granted.Load() > callers/5,
			fmt.Sprint(c.granted.Load())
	})
	leader.kill()
	all.Wait()
	standby.awaitState("active")
	t.Logf("%d granted, %d refused, %d settled at %d tokens, %d left untold; asked %d times, %d without an answer",
		c.granted.Load(), c.refused.Load(), c.settled.Load(), c.used.Load(), c.untold.Load(), c.asked.Load(),
		c.unanswered.Load())
	if c.granted.Load()+c.refused.Load() != callers || c.granted.Load() != c.settled.Load()+c.untold.Load() {
		t.Error("a call has no answer, or was granted and could not be settled")
	}
	r.eventually(callTTL+patience, "what nobody settled is given back", func() (bool, string) {
		p := standby.pool()
		return p.Reserved == 0 && p.Used == float64(c.used.Load()),
			fmt.Sprintf("%+v, and %d should be used", p, c.used.Load())
	})
	status := standby.status()
	if status.Audit.Violations > 0 {
		t.Errorf("the auditor has found %+v", status.Audit.Found)
	}
	var books *quotaBooks
	r.eventually(patience, "the journal says so, too", func() (bool, string) { // nothing waits for an end by itself
		books = &quotaBooks{reserved: map[coordinator.TaskKey]int64{}}
		r.readJournalWith(standby.status().Journal.Records, books.take)
		return books.sum() == 0, fmt.Sprintf("%d are set aside", books.sum())
	})
	if books.most > callTokens {
		t.Errorf("%d were used and set aside at one time, of %d", books.most, callTokens)
	}
	if books.used != c.used.Load() {
		t.Errorf("by the journal %d are used, and it should be %d", books.used, c.used.Load())
	}
}

// crowd is callers that ask at one time.
type crowd struct {
	r      *rig
	at     []string
	client *http.Client

	granted, refused, settled, untold, used, asked, unanswered atomic.Int64
}

// call is one call: it asks for quota, and tells what it has used. Every tenth tells nothing.
func (c *crowd) call(ctx context.Context, i int) {
	id := fmt.Sprint("c-", i)
	body := map[string]any{"reservation_id": id, "group_id": []string{"project_alpha", "project_beta"}[i%2],
		"input_tokens": estimate - 20, "output_tokens": 20}
	switch status, text := c.ask(ctx, i, "reserve", body); status {
	case http.StatusTooManyRequests:
		c.refused.Add(1)
		return
	case http.StatusOK:
		c.granted.Add(1)
	default:
		c.r.t.Errorf("%s: reserve is answered %d %s", id, status, text)
		return
	}
	if i%10 == 0 {
		c.untold.Add(1)
		return
	}
	// 409: it was settled before, and the answer lost with the leader.
	switch status, text := c.ask(ctx, i, "settle", map[string]any{"reservation_id": id, "input_tokens": usageOf(id) - 10,
		"output_tokens": 10}); status {
	case http.StatusOK, http.StatusConflict:
		c.settled.Add(1)
		c.used.Add(int64(usageOf(id)))
	default:
		c.r.t.Errorf("%s: settle is answered %d %s", id, status, text)
	}
}

// ask asks one coordinator after the other until one of them answers.
func (c *crowd) ask(ctx context.Context, i int, what string, body map[string]any) (status int, answer string) {
	text, err := json.Marshal(body)
	if err != nil {
		c.r.t.Error(err)
		return 0, ""
	}
	for n := i; ctx.Err() == nil; n++ {
		c.asked.Add(1)
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.at[n%len(c.at)]+"/v1/quota/"+what,
			bytes.NewReader(text))
		if err != nil {
			c.r.t.Error(err)
			return 0, ""
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Authorization", "Bearer "+gatewayToken)
		response, err := c.client.Do(request)
		if err == nil {
			said, _ := io.ReadAll(response.Body) // to its end, so that the connection is used again
			_ = response.Body.Close()
			if response.StatusCode != http.StatusServiceUnavailable {
				return response.StatusCode, string(said)
			}
		}
		c.unanswered.Add(1)
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return 0, "in time"
}

package history

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// receiver takes what is sent to the webhook. It is busy at each first try.
type receiver struct {
	t   *testing.T
	key []byte

	mu     sync.Mutex
	tried  map[string]int    // by id
	bodies map[string]string // of what it has taken, by id
	ids    []string          // of what it has taken, in order
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		r.t.Errorf("read what was sent: %v", err)
	}
	id, at := q.Header.Get("webhook-id"), q.Header.Get("webhook-timestamp")
	mac := hmac.New(sha256.New, r.key)
	fmt.Fprintf(mac, "%s.%s.%s", id, at, body)
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); q.Header.Get("webhook-signature") != want {
		r.t.Errorf("%s is signed %q, want %q", id, q.Header.Get("webhook-signature"), want)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tried[id]++; r.tried[id] == 1 {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	r.bodies[id] = string(body)
	r.ids = append(r.ids, id)
}

// taken are the ids of what it has taken, in order of the alphabet, and how often each.
func (r *receiver) taken() (ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ids = slices.Clone(r.ids)
	slices.Sort(ids)
	return ids
}

// body is what it has taken under an id.
func (r *receiver) body(id string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bodies[id]
}

// halfway is a period in seconds, of an hour or two, of which a part from 0.3 to 0.6 is over.
func halfway(now time.Time) int64 {
	period := int64(3600)
	for part := 0.; part < 0.3 || part > 0.6; {
		period++
		part = float64(now.Unix()%period) / float64(period)
	}
	return period
}

// One group comes to 85 % of its budget, another uses 70 % in the first half of its period: the coordinator that leads
// tells the first at once and forecasts that both will not last. All of that is on the bus and, after
// a receiver that was busy, signed at the webhook; the standby tells nothing. When the leader is
// killed, the next one forecasts it anew under the same ids, and does not tell the 80 % again.
func TestAlerts(t *testing.T) {
	r := newIdleRig(t) // it waits twice for forecasts, which are made every 10 s
	key := []byte("0123456789abcdef0123456789abcdef")
	hook := &receiver{t: t, key: key, tried: make(map[string]int), bodies: make(map[string]string)}
	server := httptest.NewServer(hook)
	defer server.Close()
	r.env = []string{
		"TASKBUS_WEBHOOK_URL=" + server.URL + "/hooks/a-secret-path", "TASKBUS_WEBHOOK_SECRET=whsec_" +
			base64.StdEncoding.EncodeToString(key),
		"TASKBUS_GATEWAY_TOKEN=" + token,
	}
	r.write("quotas.yaml", fmt.Sprintf(`
groups:
  - {id: alpha, limits: {total_tokens: {amount: 1000000, interval_seconds: %[1]d, borrow: 0}}}
  - {id: beta, limits: {total_tokens: {amount: 1000000, interval_seconds: %[1]d, borrow: 0}}}
`, halfway(time.Now())))
	leader := r.start(filepath.Join(r.dir, "first.db"))
	standby := r.launch(filepath.Join(r.dir, "second.db"))
	r.broker.DeclareQueue(t, "alerts", nil)
	r.broker.Bind(t, "taskbus.events", "alerts", "quota.#")
	leader.consume("alpha", 850_000)
	leader.consume("beta", 700_000)

	r.eventually("three events are at the webhook", func() (bool, string) {
		ids := hook.taken()
		return len(ids) == 3,
			fmt.Sprint(ids)
	})
	got := make(map[string]string) // ids by event and node
	for _, m := range r.broker.Drain(t, "alerts") {
		var e struct {
			Node                  string
			Used, Limit, Expected float64
			OverrunAt             time.Time `json:"overrun_at"`
			ResetsAt              time.Time `json:"resets_at"`
			Basis                 string
		}
		if err := json.Unmarshal(m.Body, &e); err != nil {
			t.Fatal(err)
		}
		got[m.RoutingKey+" "+e.Node] = m.MessageId
		if body := hook.body(m.MessageId); body != string(m.Body) {
			t.Errorf("on the bus %s is %s, at the webhook %s", m.MessageId, m.Body, body)
		}
		// Of the period 0.3 to 0.6 are over, or some seconds more.
		if least, most := e.Used/0.65, e.Used/0.3; m.Type == "quota.overrun" &&
			(e.Expected < least || e.Expected > most || e.Basis != "pace of the period" || !e.OverrunAt.After(time.Now()) ||
				e.OverrunAt.After(e.ResetsAt)) {
			t.Errorf("forecast: %s", m.Body)
		}
	}
	for _, told := range []string{"quota.reached.80 pool/alpha", "quota.overrun pool/alpha", "quota.overrun pool/beta"} {
		if got[told] == "" {
			t.Errorf("%s is not on the bus", told)
		}
	}
	if len(got) != 3 {
		t.Errorf("on the bus are %v", got)
	}

	leader.kill()
	want := []string{got["quota.overrun pool/alpha"], got["quota.overrun pool/alpha"], got["quota.overrun pool/beta"],
		got["quota.overrun pool/beta"], got["quota.reached.80 pool/alpha"]}
	slices.Sort(want)
	r.eventually("the next leader tells what it forecasts", func() (bool, string) {
		ids := hook.taken()
		return slices.Equal(ids, want), fmt.Sprintf("%v, want %v", ids, want)
	})
	for _, p := range []*process{leader, standby} {
		if log := p.log.String(); strings.Contains(log, "a-secret-path") || strings.Contains(log, "whsec_") ||
			!strings.Contains(log, "events about quotas are sent to a webhook") {
			t.Errorf("the log has a secret, or nothing of the webhook:\n%s", log)
		}
	}
}

// consume has a gateway tell that a group has used so many tokens.
func (p *process) consume(group string, tokens int) {
	p.r.t.Helper()
	q, err := http.NewRequest(http.MethodPost, p.base+"/v1/quota/consume",
		strings.NewReader(fmt.Sprintf(`{"agent_id":"a1","group_id":%q,"tokens_needed":%d}`, group, tokens)))
	if err != nil {
		p.r.t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+token)
	q.Header.Set("Content-Type", "application/json")
	a, err := httpClient.Do(q)
	if err != nil {
		p.r.t.Fatal(err)
	}
	defer a.Body.Close()
	if text, err := io.ReadAll(a.Body); err != nil || a.StatusCode != http.StatusOK {
		p.r.t.Fatalf("consume: %d %s, %v", a.StatusCode, text, err)
	}
}

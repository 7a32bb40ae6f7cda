package quota_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/agent/quota"
)

// fleet is two coordinators with on_loss allow, "one" and "two", and the leader that both can ask while
// there is one. They answer as package coordinator/service does (calls_lost.go, calls_owed.go): a
// coordinator that admits a call without a leader alone knows it until it has reported it,
// a second after its end, or two minutes after it was admitted.
type fleet struct {
	t        *testing.T
	arrivals // of OPERATION@HOST

	mu      sync.Mutex
	leads   bool
	hosts   map[string]*member
	stands  map[string]int64 // what the leader has set aside, by reservation
	charged map[string]int64 // what it has charged
	behind  string           // where http://vip leads to
}

type member struct {
	owed map[string]*owed
	// deaf: nothing reaches it. mute: no answer comes back.
	deaf, mute bool
}

type owed struct {
	tokens int64
	due    time.Time // when the leader is to be told
	ended  bool
}

func inFleet(t *testing.T, test func(f *fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(&fleet{
			t: t, hosts: map[string]*member{"one": {owed: map[string]*owed{}}, "two": {owed: map[string]*owed{}}},
			stands: map[string]int64{}, charged: map[string]int64{}, behind: "one",
		})
	})
}

// client is one of both coordinators, with a reservation for every call if nothing else is said.
func (f *fleet) client(change ...func(o *quota.Options)) *quota.Client {
	f.t.Helper()
	o := quota.Options{URLs: []string{"http://one", "http://two"}, Agent: "x", Token: "t",
		HTTP: &http.Client{Transport: f}, Lease: quota.Lease{Calls: 1}}
	for _, c := range change {
		c(&o)
	}
	c, err := quota.New(o)
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

func (f *fleet) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// tell has the leader charge what is due.
func (f *fleet) tell() {
	for _, m := range f.hosts {
		for id, o := range m.owed {
			if !f.leads || time.Now().Before(o.due) {
				continue
			}
			if _, known := f.charged[id]; !known {
				f.charged[id] = o.tokens
			}
			delete(m.owed, id)
		}
	}
}

// sum is what the leader has charged for so many reservations, after everything that is due.
func (f *fleet) sum() (tokens int64, reservations int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tell()
	for _, n := range f.charged {
		tokens += n
	}
	return tokens, len(f.charged)
}

// insist checks what has been charged, and what the client says of it.
func (f *fleet) insist(c *quota.Client, tokens int64, reservations int, lost uint64, untold int) {
	f.t.Helper()
	if n, of := f.sum(); n != tokens || of != reservations {
		f.t.Errorf("%d tokens of %d reservations are charged, want %d of %d", n, of, tokens, reservations)
	}
	if s := c.Stats(); s.Lost != lost || s.Untold != untold {
		f.t.Errorf("%d lost and %d untold, want %d and %d", s.Lost, s.Untold, lost, untold)
	}
}

// RoundTrip is the network, and what is behind it.
func (f *fleet) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tell()
	host, op := r.URL.Host, strings.TrimPrefix(r.URL.Path, "/v1/quota/")
	if host == "vip" {
		host = f.behind
	}
	m := f.hosts[host]
	if m.deaf {
		return nil, errors.New("connection refused")
	}
	f.arrived(op + "@" + host)
	var q struct {
		ID     string `json:"reservation_id"`
		Input  int64  `json:"input_tokens"`
		Output int64  `json:"output_tokens"`
	}
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(&q); err != nil {
		return nil, err
	}
	status, text := f.answer(m, op, q.ID, q.Input+q.Output)
	if m.mute {
		return nil, errors.New("connection reset")
	}
	w := httptest.NewRecorder()
	w.WriteHeader(status)
	_, _ = w.WriteString(text)
	return w.Result(), nil
}

func (f *fleet) answer(m *member, op, id string, tokens int64) (status int, text string) {
	_, charged := f.charged[id]
	_, stands := f.stands[id]
	held := m.owed[id]
	granted := fmt.Sprintf(`{"granted": true, "reservation_id": %q, "expires_at": %q, "unconfirmed": %v}`, id,
		time.Now().Add(2*time.Minute).Format(time.RFC3339), !f.leads)
	switch ends := op == "settle" || op == "release"; {
	case op == "reserve" && f.leads:
		f.stands[id] = tokens
	case op == "reserve":
		m.owed[id] = &owed{tokens: tokens, due: time.Now().Add(2 * time.Minute)}
	case ends && f.leads && charged:
		return http.StatusConflict, `{"title": "Reservation has ended"}`
	case ends && f.leads && stands:
		delete(f.stands, id)
		if op == "settle" {
			f.charged[id] = tokens
		}
	case op == "release" && held != nil && !held.ended:
		delete(m.owed, id)
	case op == "settle" && held != nil && !held.ended:
		held.tokens, held.ended, held.due = tokens, true, time.Now().Add(time.Second)
	case f.leads:
		return http.StatusNotFound, `{"title": "Unknown reservation"}`
	default:
		return http.StatusServiceUnavailable, `{"title": "Not leading", "detail": "there is no leader"}`
	}
	return http.StatusOK, granted
}

// reserve insists on a reservation of 100 tokens by its id.
func (f *fleet) reserve(c *quota.Client) string {
	f.t.Helper()
	a, err := c.Reserve(context.Background(), taking(50, 50))
	if err != nil || !a.Unconfirmed {
		f.t.Fatalf("%+v, %v", a, err)
	}
	return a.ReservationID
}

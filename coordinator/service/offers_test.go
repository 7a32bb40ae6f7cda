package service

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/outbox"
	"taskbus/messages"
	"taskbus/schemas"
)

// postbox is a broker session that keeps what it is given.
type postbox struct {
	bus.Session
	err error // of Publish

	mu    sync.Mutex
	sent  []bus.Publication
	acked []bus.Tag
}

func (b *postbox) Publish(p bus.Publication) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.sent = append(b.sent, p)
	}
	return b.err
}

func (b *postbox) Ack(tag bus.Tag) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.acked = append(b.acked, tag)
}

func (*postbox) User() string { return "taskbus" }

// booth is a session with a postbox for a broker, whose loop applies nothing: what is
// posted to it can be looked at.
type booth struct {
	*session
	*postbox
	t testing.TB
}

func newBooth(t testing.TB, agentsYAML string) *booth {
	t.Helper()
	s, err := New(Options{Config: parseConfig(t, agentsYAML), Logger: zerolog.New(io.Discard),
		Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	p := &postbox{}
	b := &booth{t: t, postbox: p, session: newSession(s)}
	b.use(p)
	b.posted() // of the policy
	return b
}

// posted gives the events that the loop was told since it was asked last.
func (b *booth) posted() (events []coordinator.Event) {
	l := b.s.loop
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.inbox {
		events = append(events, e.event)
	}
	l.inbox = nil
	return events
}

// flush publishes what waits in the outbox, and gives what was sent since it was asked
// last.
func (b *booth) flush() []bus.Publication {
	for _, publish := range b.outbox.Swap(nil) {
		publish()
		b.outbox.Published()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	sent := b.sent
	b.sent = nil
	return sent
}

// available reads a task.available, which must be right by its schema.
func (b *booth) available(p bus.Publication) *messages.TaskAvailable {
	b.t.Helper()
	m, refusal := b.s.decoder.DecodeTaskAvailable(p.Body)
	if refusal != nil {
		b.t.Fatalf("a task.available that agents refuse: %s\n%s", refusal.Text, p.Body)
	}
	if p.Exchange != bus.ExchangeControl || p.Key != string(m.AgentID) || p.Type != schemas.TaskAvailable || p.Optional {
		b.t.Errorf("it goes to %s with key %s and type %s, optional %v", p.Exchange, p.Key, p.Type, p.Optional)
	}
	return m
}

func offerOf(agent string, number int, window time.Duration) *coordinator.Offer {
	id := fmt.Sprint("t-", number)
	return &coordinator.Offer{
		Agent: coordinator.AgentID(agent), AuctionID: id + ".1", Attempt: 1, Required: []string{"go"}, Window: window,
		Task: &coordinator.Task{ID: coordinator.TaskID(id), Type: "build", Priority: coordinator.PriorityHigh,
			Description: "mend it", Carried: coordinator.Carried{CorrelationID: "trace-" + id}},
	}
}

// Offers to one agent within 2 ms go in one message, 256 at most.
func TestOffersToOneAgentGoTogether(t *testing.T) {
	type given struct {
		after time.Duration // since the one before
		agent string
		n     int
	}
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		given []given
		want  string // agent and number of offers of each message
	}{
		"one":                           {[]given{{0, "a1", 1}}, "a1:1"},
		"three within 2 ms":             {[]given{{0, "a1", 1}, {ms, "a1", 1}, {ms - 1, "a1", 1}}, "a1:3"},
		"the third after 2 ms":          {[]given{{0, "a1", 2}, {2*ms + 1, "a1", 1}}, "a1:2 a1:1"},
		"two agents":                    {[]given{{0, "a1", 1}, {0, "a2", 2}, {0, "a1", 1}}, "a1:2 a2:2"},
		"256":                           {[]given{{0, "a1", 256}}, "a1:256"},
		"300 = 256 + 44":                {[]given{{0, "a1", 300}}, "a1:256 a1:44"},
		"a full one takes others along": {[]given{{0, "a2", 1}, {ms, "a1", 257}}, "a2:1 a1:256 a1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBooth(t, fleet)
				var ids []string
				for _, g := range c.given {
					time.Sleep(g.after)
					synctest.Wait()
					for range g.n {
						o := offerOf(g.agent, len(ids), time.Second)
						ids = append(ids, o.AuctionID)
						b.perform(o)
					}
				}
				time.Sleep(outbox.OfferPause)
				synctest.Wait()
				var got, seen []string
				for _, p := range b.flush() {
					m := b.available(p)
					got = append(got, fmt.Sprintf("%s:%d", m.AgentID, len(m.Offers)))
					for _, o := range m.Offers {
						seen = append(seen, o.AuctionID)
					}
				}
				if strings.Join(got, " ") != c.want {
					t.Errorf("messages %v, want %s", got, c.want)
				}
				if slices.Sort(ids); len(c.given) == 1 && !slices.IsSortedFunc(seen, byNumber) {
					t.Errorf("out of order: %v", seen)
				}
				if slices.Sort(seen); !slices.Equal(seen, ids) {
					t.Errorf("%d offers arrive, want all %d once", len(seen), len(ids))
				}
				time.Sleep(time.Second)
				if more := b.flush(); len(more) != 0 {
					t.Errorf("%d messages more, later", len(more))
				}
			})
		})
	}
}

// byNumber compares the auction ids t-N.1.
func byNumber(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// What an agent reads of an offer. The window has run since the auction began, and the
// message expires when nothing in it can be bid for any more.
func TestWhatAnOfferSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBooth(t,
			"agents: {auth: strict, a1: {max_concurrent_tasks: 1}}\ntask_routing: {build: {required_capabilities: []}}\n")
		first := offerOf("a1", 1, 100*time.Millisecond)
		first.Task.Deadline = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
		b.perform(first)
		time.Sleep(time.Millisecond)
		b.perform(offerOf("a1", 2, 300*time.Millisecond))
		b.perform(offerOf("a1", 3, 2500*time.Microsecond))
		b.perform(offerOf("a1", 4, time.Millisecond))
		time.Sleep(time.Millisecond)
		synctest.Wait()
		sent := b.flush()
		if len(sent) != 1 {
			t.Fatalf("%d messages, want 1", len(sent))
		}
		p := sent[0]
		m := b.available(p)
		want := messages.TaskOffer{
			TaskID: "t-1", AuctionID: "t-1.1", TaskType: "build", RequiredCapabilities: []string{"go"}, Attempt: 1,
			BidWindowMS: 98, // 100 - 2
			Description: "mend it", Priority: coordinator.PriorityHigh, Deadline: first.Task.Deadline,
			CorrelationID: "trace-t-1",
		}
		if !reflect.DeepEqual(m.Offers[0], want) {
			t.Errorf("the offer %+v\nwant      %+v", m.Offers[0], want)
		}
		var windows []int
		for _, o := range m.Offers {
			windows = append(windows, o.BidWindowMS)
		}
		// The second has waited for 1 ms, as the third: 1.5 ms left, in whole ones. The fourth is over.
		if !slices.Equal(windows, []int{98, 299, 1}) {
			t.Errorf("windows %v", windows)
		}
		if p.Expiration != 299*time.Millisecond || p.UserID != "taskbus" || p.MessageID != "t-1.1.available" ||
			p.AppID != outbox.AppID || p.ContentType != outbox.ContentJSON {
			t.Errorf("properties %+v", p.Properties)
		}
	})
}

// Offers that are over when the broker takes publications again are worth nothing.
func TestOffersThatAreOverAreNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBooth(t, fleet)
		b.perform(offerOf("a1", 1, 100*time.Millisecond))
		time.Sleep(100 * time.Millisecond)
		if sent := b.flush(); len(sent) != 0 || b.tickets.Count() != 0 || len(b.posted()) != 0 {
			t.Errorf("sent %v", sent)
		}
	})
}

// An agent without a control queue, or with a full one, cannot be asked; the engine must not wait for it.
// That the session has ended says nothing of the agent.
func TestOffersThatNobodyHears(t *testing.T) {
	const nobody = bus.Outcome(255)
	for name, c := range map[string]struct {
		err     error // of Publish
		outcome bus.Outcome
		unheard bool
	}{
		"heard":            {nil, bus.Confirmed, false},
		"no queue":         {nil, bus.Unroutable, true},
		"a full queue":     {nil, bus.Rejected, true},
		"session lost":     {nil, bus.Unknown, false},
		"session over":     {bus.ErrClosed, nobody, false},
		"cannot be a body": {&bus.EncodingError{Reason: "too long"}, nobody, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBooth(t, fleet)
				b.postbox.err = c.err
				b.perform(offerOf("a1", 1, time.Second))
				time.Sleep(outbox.OfferPause)
				synctest.Wait()
				for _, p := range b.flush() {
					b.onSettled(p.Token, c.outcome)
				}
				var want []coordinator.Event
				if c.unheard {
					want = []coordinator.Event{coordinator.OfferUnheard{Agent: "a1"}}
				}
				if got := b.posted(); !reflect.DeepEqual(got, want) {
					t.Errorf("the engine hears %v, want %v", got, want)
				}
				if n := b.tickets.Count(); n != 0 {
					t.Errorf("%d publications are waited for", n)
				}
			})
		})
	}
}

// The same on a broker: an agent with a control queue reads the offers, and one line names each without.
func TestOffersOnABroker(t *testing.T) {
	set, err := schemas.Compile()
	if err != nil {
		t.Fatal(err)
	}
	inRig(t, fleet, func(r *rig) {
		a1 := r.worker("a1", true)
		r.worker("a2", false)
		for round := range 2 {
			r.perform(offerOf("a1", round, time.Second), offerOf("a2", round, time.Second))
			r.pass(outbox.OfferPause)
		}
		told := a1.told()
		if len(told) != 2 {
			t.Fatalf("a1 got %d messages, want 2", len(told))
		}
		for _, m := range told {
			if err := set.Validate(schemas.TaskAvailable, any(m.fields)); err != nil {
				t.Errorf("%v\n%s", err, m.Body)
			}
		}
		got := scraped(t, r.service.options.Registry)
		for name, want := range map[string]float64{"taskbus_offers_total": 4, "taskbus_offer_messages_total": 4,
			"taskbus_offers_unheard_total": 2} {
			if got[name] != want {
				t.Errorf("%s = %v, want %v", name, got[name], want)
			}
		}
		if n := strings.Count(r.log.String(), "cannot be offered tasks"); n != 1 {
			t.Errorf("%d lines about a2, want 1", n)
		}
	})
}

// perform has the session that leads carry out effects, as the loop does.
func (r *rig) perform(effects ...coordinator.Effect) {
	r.t.Helper()
	s := r.service.current.Load()
	r.service.loop.within(s.number, func(time.Time) {
		for _, f := range effects {
			s.perform(f)
		}
	})
	synctest.Wait()
}

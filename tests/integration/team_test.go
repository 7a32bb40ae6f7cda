package integration

import (
	"cmp"
	"context"
	"crypto/sha256"
	"log/slog"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/agent"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/bus/amqpbus"
	"taskbus/messages"
)

// member is an agent with the SDK in the test's own process: a test can give it any
// Bidder, and see how much it does at once. What it begins goes into the books.
type member struct {
	t     *testing.T
	id    string
	log   *logBook
	leave context.CancelFunc
	ended chan struct{}
	err   error // of Run; read after ended

	mu            sync.Mutex
	running, most int // tasks at once: now, and at any time
	begun         int
}

// member starts an agent on the rig's broker. It has left when the test ends.
func (r *rig) member(b *books, cfg agent.Config, work agent.Handler) *member {
	r.t.Helper()
	m := &member{t: r.t, id: cfg.ID, log: newLogBook(), ended: make(chan struct{})}
	cfg.Bus = amqpbus.New(amqpbus.Config{URL: r.broker.URL})
	cfg.Interval, cfg.DrainTimeout = cmp.Or(cfg.Interval, time.Second), 10*time.Second
	cfg.Logger = slog.New(slog.NewJSONHandler(m.log, &slog.HandlerOptions{ReplaceAttr: likeZerolog}))
	ctx, leave := context.WithCancel(context.Background())
	m.leave = leave
	go func() {
		defer close(m.ended)
		m.err = agent.Run(ctx, cfg, func(ctx context.Context, t *agent.Task) (agent.Result, error) {
			m.begins(b, t)
			defer m.ends()
			return work(ctx, t)
		})
	}()
	r.t.Cleanup(func() {
		leave()
		<-m.ended
		if r.t.Failed() {
			r.t.Logf("the end of the log of %s:\n%s", m.id, m.log.tail(20))
		}
	})
	return m
}

func (m *member) begins(b *books, t *agent.Task) {
	b.mu.Lock()
	b.dispatched[t.ID] = append(b.dispatched[t.ID], outcome{
		agent: m.id, dispatchID: t.DispatchID, payload: sha256.Sum256(t.Payload), marked: t.MaybeDuplicate,
	})
	b.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begun++
	m.running++
	m.most = max(m.most, m.running)
}

func (m *member) ends() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running--
}

// count is how much it has begun so far, and how much at once at most.
func (m *member) count() (begun, most int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.begun, m.most
}

// retire ends the agent in order; its handlers must return.
func (m *member) retire() {
	m.t.Helper()
	m.leave()
	select {
	case <-m.ended:
	case <-time.After(patience):
		m.t.Fatalf("agent %s did not end within %v", m.id, patience)
	}
	if m.err != nil {
		m.t.Errorf("agent %s ended with %v", m.id, m.err)
	}
}

// lasting is a handler whose work takes this long, however much of it there is at once.
func lasting(d time.Duration) agent.Handler {
	return func(ctx context.Context, _ *agent.Task) (agent.Result, error) { return agent.Result{}, rest(ctx, d) }
}

// rest is as long as the work takes.
func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// overheard is what agents were told by the exchange taskbus.control.
type overheard struct {
	mu   sync.Mutex
	told []messages.Control
}

// overhear listens beside these agents until the test ends, by a queue of its own: an
// agent without a control queue must not be among them, or it would seem to have one.
func (r *rig) overhear(ids ...string) *overheard {
	r.t.Helper()
	c := connect(r.t, r.broker)
	q, err := c.channel.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, id := range ids {
		if err := c.channel.QueueBind(q.Name, id, bus.ExchangeControl, false, nil); err != nil {
			r.t.Fatal(err)
		}
	}
	deliveries, err := c.channel.Consume(q.Name, "", true, true, false, false, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	o, decoder, done := &overheard{}, newDecoder(r.t), make(chan struct{})
	go func() {
		defer close(done)
		for d := range deliveries {
			m, refusal := decoder.DecodeControl(d.Body)
			if refusal != nil {
				r.t.Errorf("%s was told what cannot be read: %s", d.RoutingKey, refusal.Text)
				continue
			}
			o.mu.Lock()
			o.told = append(o.told, m)
			o.mu.Unlock()
		}
	}()
	r.t.Cleanup(func() { _ = c.channel.Close(); <-done })
	return o
}

// of lists what was said so far of this type.
func of[T messages.Control](o *overheard) (all []T) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, told := range o.told {
		if m, is := told.(T); is {
			all = append(all, m)
		}
	}
	return all
}

// awaitTold waits until at least n messages of this type were sent.
func awaitTold[T messages.Control](t *testing.T, o *overheard, n int) (all []T) {
	t.Helper()
	eventually(t, patience, "agents are told", func() (bool, string) {
		all = of[T](o)
		return len(all) >= n, plural(len(all), "message") + ", want " + plural(n, "message")
	})
	return all
}

// asked sends what an agent asks for to task.request, through the exchange and under
// its own key; a user, if given, signs it.
func (c *client) asked(id, messageType, user string, body []byte) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	w, err := c.channel.PublishWithDeferredConfirmWithContext(ctx, bus.ExchangeAgents, bus.QueueRequest+"."+id, true,
		false,
		amqp.Publishing{ContentType: "application/json", Type: messageType, UserId: user, Body: body})
	if err != nil {
		c.t.Fatalf("%s asks: %v", id, err)
	}
	if confirmed, err := w.WaitContext(ctx); err != nil || !confirmed {
		c.t.Fatalf("what %s asks was not confirmed: %v", id, err)
	}
}

package failover

import (
	"context"
	"encoding/json"
	"errors"
	"hash/fnv"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/agent"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/bus/amqpbus"
	"taskbus/messages"
	"taskbus/schemas"
)

// Agents take so long for a task.
const work = 10 * time.Millisecond

// confirmWithin is how long agents with the SDK wait for a confirm before they connect
// again. RabbitMQ 3.10 may lose what it owes to publishers of a stream when the node of
// the stream's leader is lost, and until then such an agent stands still.
const confirmWithin = 5 * time.Second

// hire starts all agents of the configuration but absent.
func (r *rig) hire() (k *keeper) {
	r.t.Helper()
	k = &keeper{gate: make(chan struct{})}
	r.sdk("sdk-1", 40, r.build(20)) // one of twenty goes wrong
	r.sdk("sdk-2", 40, r.build(0))
	r.sdk("keeper", 8, r.keep(k))
	r.plain("plain-1", 40)
	r.plain("plain-2", 40)
	return k
}

// sdk starts an agent with the SDK, which lives as long as the test.
func (r *rig) sdk(id string, slots int, handle agent.Handler) {
	r.helpers.Go(func() {
		err := agent.Run(r.living, agent.Config{ID: id, Slots: slots,
			Bus:      amqpbus.New(amqpbus.Config{URL: r.url, ConfirmTimeout: confirmWithin}),
			Interval: time.Second, DrainTimeout: time.Second, Logger: slog.New(slog.NewJSONHandler(&r.sdkLog, nil)).
					With("agent", id)},
			func(ctx context.Context, t *agent.Task) (agent.Result, error) {
				r.book.begins(t.ID, run{agent: id, dispatch: t.DispatchID, marked: t.MaybeDuplicate, tells: true, at: time.Now(),
					assigned: t.AssignedAt})
				result, err := handle(ctx, t)
				if ctx.Err() == nil {
					r.book.finishes(t.ID, t.DispatchID)
				}
				return result, err
			})
		if err != nil {
			r.t.Errorf("run %s: %v", id, err)
		}
	})
}

// build does a task, or fails with one of so many; 0: with none.
func (r *rig) build(oneOf uint32) agent.Handler {
	return func(ctx context.Context, t *agent.Task) (agent.Result, error) {
		pause(ctx, work)
		h := fnv.New32a()
		h.Write([]byte(t.ID))
		if oneOf > 0 && h.Sum32()%oneOf == 0 {
			return agent.Result{}, errors.New("this one went wrong")
		}
		return agent.Result{}, ctx.Err()
	}
}

// keeper holds its tasks until it lets go.
type keeper struct {
	gate chan struct{}
	once sync.Once
}

func (k *keeper) letGo() { k.once.Do(func() { close(k.gate) }) }

func (r *rig) keep(k *keeper) agent.Handler {
	return func(ctx context.Context, t *agent.Task) (agent.Result, error) {
		select {
		case <-k.gate:
			return agent.Result{}, nil
		case <-ctx.Done():
			return agent.Result{}, ctx.Err()
		}
	}
}

// plain starts an agent that knows nothing but its queue and agent.status.
func (r *rig) plain(id string, slots int) {
	set, err := schemas.Compile()
	if err != nil {
		r.t.Fatal(err)
	}
	p := &plainAgent{r: r, id: id, slots: slots, decoder: messages.NewDecoder(set, messages.Limits{})}
	r.helpers.Go(func() {
		for r.living.Err() == nil {
			p.session()
			pause(r.living, 100*time.Millisecond)
		}
	})
}

type plainAgent struct {
	r       *rig
	id      string
	slots   int
	decoder *messages.Decoder
	active  atomic.Int64
}

// session works on one connection until that or the test ends.
func (p *plainAgent) session() {
	conn, err := amqp.Dial(p.r.url)
	if err != nil {
		return
	}
	defer conn.CloseDeadline(time.Now().Add(patience))
	ch, err := conn.Channel()
	if err != nil || ch.Qos(p.slots, 0, false) != nil {
		return
	}
	deliveries, err := ch.Consume("agent."+p.id, "", false, false, false, false, nil)
	if err != nil {
		return // its queue does not exist yet
	}
	var working sync.WaitGroup
	defer working.Wait()
	living, end := context.WithCancel(p.r.living)
	defer end()
	working.Go(func() { p.report(living, conn) })
	for {
		select {
		case d, open := <-deliveries:
			if !open {
				return
			}
			m, refusal := p.decoder.DecodeTaskDispatch(d.Body)
			if refusal != nil {
				p.r.t.Errorf("%s got what is no dispatch: %s", p.id, refusal.Text)
				return
			}
			marked := d.Headers["x-taskbus-maybe-duplicate"] == true || d.Redelivered
			p.r.book.begins(string(m.TaskID), run{agent: p.id, dispatch: m.DispatchID, marked: marked, at: time.Now(),
				assigned: m.AssignmentTime})
			working.Go(func() {
				p.active.Add(1)
				defer p.active.Add(-1)
				pause(living, work)
				_ = d.Ack(false) // if the connection has ended, it comes again
			})
		case <-living.Done():
			return
		}
	}
}

// report says every 200 ms how many tasks it works on.
func (p *plainAgent) report(ctx context.Context, conn *amqp.Connection) {
	ch, err := conn.Channel()
	if err != nil {
		return
	}
	for ctx.Err() == nil {
		active := int(p.active.Load())
		body, err := json.Marshal(map[string]any{
			"message_type": "agent.status", "agent_id": p.id, "status": "ready",
			"current_load": float64(active) / float64(p.slots) / 2, "active_tasks": active,
			"available_capacity": max(p.slots-active, 0), "timestamp": time.Now().UTC().Format(time.RFC3339Nano),
		})
		if err == nil {
			err = ch.PublishWithContext(ctx, "", bus.StreamStatus, false, false,
				amqp.Publishing{ContentType: "application/json", Body: body})
		}
		if err != nil {
			return
		}
		pause(ctx, 200*time.Millisecond)
	}
}

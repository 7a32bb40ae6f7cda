package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/agent"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/messages"
	"taskbus/schemas"
)

// What works beside the service, with as little work as it can have: the relay, and kinds of agents.

var errNoDeliveries = errors.New("the broker stopped delivering")

// mover publishes what comes in elsewhere, confirmed, and acknowledges it then: as good as a plain, careful program
// gets with the library as it is. Publishing and consuming have a connection each, as the library recommends; confirms
// are pipelined; acknowledgements go out for many at once, and at once when nothing else is to be done.
type mover struct {
	consume *amqp.Channel
	window  chan moved
}

type moved struct {
	confirm *amqp.DeferredConfirmation
	tag     uint64
}

// move runs until ctx ends: the n-th message of a queue goes where to says.
func move(ctx context.Context, url string, queues []string, ahead int,
	to func(n int, queue string, d amqp.Delivery) (string, amqp.Publishing), ready func()) {
	publish := connect(ctx, url, "publishing")
	// Never full: the broker sends no more than that unacknowledged.
	m := &mover{connect(ctx, url, "consuming"), make(chan moved, ahead*len(queues))}
	check(errors.Join(publish.Confirm(false), m.consume.Qos(ahead, 0, false)))
	returned, ended := publish.NotifyReturn(make(chan amqp.Return, prefetch)), make(chan error, len(queues)+1)
	for _, queue := range queues {
		deliveries := must(m.consume.Consume(queue, "", false, false, false, false, nil))
		go func() {
			ended <- caught(func() {
				n := 0
				for d := range deliveries {
					key, p := to(n, queue, d)
					m.window <- moved{must(publish.PublishWithDeferredConfirm("", key, true, false, p)), d.DeliveryTag}
					n++
				}
				check(errNoDeliveries)
			})
		}()
	}
	go func() { ended <- caught(m.settle) }()
	ready()
	select {
	case <-ctx.Done():
	case r := <-returned:
		panic(fmt.Errorf("the queue %s does not exist", r.RoutingKey))
	case err := <-ended:
		check(err)
	}
}

// settle waits for the confirms, in order, and acknowledges.
func (m *mover) settle() {
	var confirmed tide
	acknowledged := uint64(0)
	for {
		var s moved
		select {
		case s = <-m.window:
		default: // idle
			if confirmed.upTo > acknowledged {
				acknowledged = confirmed.upTo
				check(m.consume.Ack(acknowledged, true))
			}
			s = <-m.window
		}
		if !s.confirm.Wait() {
			panic(errors.New("the broker did not confirm a message"))
		}
		if confirmed.add(s.tag); confirmed.upTo-acknowledged >= 100 {
			acknowledged = confirmed.upTo
			check(m.consume.Ack(acknowledged, true))
		}
	}
}

// tide is the highest delivery tag up to which all have been added. Those of a channel begin at 1.
type tide struct {
	upTo  uint64
	above map[uint64]bool // added, with one missing below
}

func (t *tide) add(tag uint64) {
	if tag != t.upTo+1 {
		if t.above == nil {
			t.above = make(map[uint64]bool)
		}
		t.above[tag] = true
		return
	}
	for t.upTo = tag; t.above[t.upTo+1]; t.upTo++ {
		delete(t.above, t.upTo+1)
	}
}

// relay is a process: what comes into its input goes to the agents in turn.
func relay(ctx context.Context, url, _ string) {
	targets := queueNames(relayQueue, fleetSize)
	move(withInput(ctx, func(string) {}), url, []string{relayInput}, prefetch,
		func(n int, _ string, d amqp.Delivery) (string, amqp.Publishing) {
			return targets[n%len(targets)], amqp.Publishing{
				DeliveryMode: amqp.Persistent, ContentType: d.ContentType, Type: d.Type, MessageId: d.MessageId,
				CorrelationId: d.CorrelationId, AppId: d.AppId, Timestamp: d.Timestamp, Body: d.Body,
			}
		}, sayReady)
}

// light is the whole fleet: each agent answers what it gets with a task.result to the stream.
func light(stream string) helper {
	return func(ctx context.Context, r *rig, ready func()) {
		if stream == bareStream {
			must(r.channel.QueueDeclare(stream, true, false, false, false, streamLike(bus.StreamResult)))
		}
		move(ctx, r.url, queueNames(agentQueue, fleetSize), 50,
			func(_ int, queue string, d amqp.Delivery) (string, amqp.Publishing) {
				return stream, resultOf(strings.TrimPrefix(queue, "agent."), d, time.Now())
			}, ready)
	}
}

// streamLike are the arguments of one of the service's streams.
func streamLike(name string) amqp.Table {
	q, _ := bus.OwnQueue(bus.ProfileQuorum, name)
	return amqp.Table{"x-queue-type": "stream", "x-max-age": fmt.Sprintf("%.0fs", q.MaxAge.Seconds()),
		"x-max-length-bytes": q.MaxBytes, "x-stream-max-segment-size-bytes": q.SegmentBytes}
}

// resultOf is the task.result of a dispatch, by its properties alone.
func resultOf(agent string, d amqp.Delivery, now time.Time) amqp.Publishing {
	task := d.MessageId // the task's id, its life and the attempt
	for range 2 {
		task = task[:max(0, strings.LastIndexByte(task, '.'))]
	}
	p := message(bus.StreamResult, fmt.Appendf(make([]byte, 0, 512),
		`{"message_type":"task.result","task_id":%q,"agent_id":%q,"outcome":"succeeded","correlation_id":%q,`+
			`"timestamp":%q,"dispatch_id":%q,"duration_ms":0.25,"usage":{"requests":1,"input_tokens":1200,`+
			`"output_tokens":350,"cost_usd":0.0125,"provider":"example","model":"large-2"}}`,
		task, agent, d.CorrelationId, now.UTC().Format(time.RFC3339Nano), d.MessageId))
	p.MessageId, p.CorrelationId = d.MessageId, d.CorrelationId
	return p
}

// sdkSlots is how many tasks each agent of the SDK may have at once.
const sdkSlots = 10

// sdk is the whole fleet as agents of the SDK whose tasks take so long.
func sdk(takes time.Duration) helper {
	return func(ctx context.Context, r *rig, ready func()) {
		ready() // each is online when the service says so
		ended := make(chan error, fleetSize)
		for i := range fleetSize {
			go func() {
				ended <- agent.Run(ctx, agent.Config{ID: agentID(i), URL: r.url, Slots: sdkSlots},
					func(context.Context, *agent.Task) (agent.Result, error) {
						time.Sleep(takes)
						return agent.Result{}, nil
					})
			}()
		}
		for range fleetSize {
			check(<-ended)
		}
	}
}

// report is what all agents say of themselves, and how often.
type report struct {
	active, available int
	perSecond         int // of the whole fleet; 0: once, then silence
}

// statuses speaks for the whole fleet: for all at once when r.report changes, then in turn.
func statuses(ctx context.Context, r *rig, ready func()) {
	channel := connect(ctx, r.url, "statuses")
	var say *report
	var begun time.Time
	sent, next := 0, 0
	for ticker := time.Tick(10 * time.Millisecond); ctx.Err() == nil; <-ticker {
		if now := r.report.Load(); now != say {
			say, begun, sent = now, time.Now(), -fleetSize
		}
		for ; sent < int(time.Since(begun).Seconds()*float64(say.perSecond)); sent++ {
			beat(channel, agentID(next%fleetSize), "ready", *say)
			next++
		}
		ready()
	}
}

// beat publishes an agent.status.
func beat(channel *amqp.Channel, agent, state string, r report) {
	p := message(bus.StreamStatus, statusOf(agent, state, r, time.Now()))
	check(channel.Publish("", bus.StreamStatus, true, false, p))
}

func message(messageType string, body []byte) amqp.Publishing {
	const content = "application/json"
	return amqp.Publishing{DeliveryMode: amqp.Persistent, ContentType: content, Type: messageType, Body: body}
}

func statusOf(agent, state string, r report, now time.Time) []byte {
	load := float64(r.active) / float64(max(1, r.active+r.available))
	return fmt.Appendf(nil, `{"message_type":"agent.status","agent_id":%q,"status":%q,"current_load":%g,`+
		`"active_tasks":%d,"available_capacity":%d,"timestamp":%q}`,
		agent, state, load, r.active, r.available, now.UTC().Format(time.RFC3339Nano))
}

// chooser speaks for agents that bid or claim. They share one connection for what they hear and one for what they say:
// agents of the SDK have two each, which for 50 of them would be most of what is measured.
type chooser struct {
	hear, say *amqp.Channel
	ended     chan error
}

func choosing(begin ...func(context.Context, *chooser)) helper {
	return func(ctx context.Context, r *rig, ready func()) {
		c := &chooser{connect(ctx, r.url, "hear"), connect(ctx, r.url, "say"), make(chan error, 2*fleetSize)}
		for _, f := range begin {
			f(ctx, c)
		}
		ready()
		select {
		case <-ctx.Done():
		case err := <-c.ended:
			check(err)
		}
	}
}

// each calls f with each message to the agent; f ends with ctx.
func (c *chooser) each(id string, f func(<-chan amqp.Delivery)) {
	queue := "agent." + id + ".control"
	must(c.hear.QueueDeclare(queue, false, true, true, false, nil))
	check(c.hear.QueueBind(queue, id, bus.ExchangeControl, false, nil))
	deliveries := must(c.hear.Consume(queue, "", true, true, false, false, nil))
	go func() {
		f(deliveries)
		c.ended <- errNoDeliveries
	}()
}

// request publishes to task.request as the SDK does, but for confirms.
func (c *chooser) request(id, messageType string, body []byte) {
	err := c.say.Publish(bus.ExchangeAgents, bus.QueueRequest+"."+id, true, false, message(messageType, body))
	if err != nil {
		c.ended <- err
	}
}

// bid has the bidders bid for all that is offered, the last of them after the window.
func bid(late int) func(context.Context, *chooser) {
	return func(_ context.Context, c *chooser) {
		for i := range bidders {
			id, delay := agentID(i), time.Duration(0)
			if i >= bidders-late {
				delay = bidWindow * 3 / 2
			}
			c.each(id, func(deliveries <-chan amqp.Delivery) {
				for d := range deliveries {
					if d.Type == schemas.TaskAvailable {
						messageType, bids := bidsOf(id, i, d.Body)
						if delay == 0 {
							c.request(id, messageType, bids)
						} else {
							time.AfterFunc(delay, func() { c.request(id, messageType, bids) })
						}
					}
				}
			})
		}
	}
}

// bidsOf is the message with the bids for all that was offered. None is so good that a better one could not come.
func bidsOf(id string, i int, available []byte) (messageType string, body []byte) {
	var m struct {
		Offers []struct {
			TaskID    coordinator.TaskID `json:"task_id"`
			AuctionID string             `json:"auction_id"`
		} `json:"offers"`
	}
	_ = json.Unmarshal(available, &m) // an offer that is none brings no bid, which shows in the figures
	bids := make([]messages.TaskBid, len(m.Offers))
	for n, o := range m.Offers {
		number, _ := taskNumber(string(o.TaskID))
		bids[n] = messages.TaskBid{TaskID: o.TaskID, AuctionID: o.AuctionID, AgentID: coordinator.AgentID(id),
			Fitness: 0.5 + float64((number+i)%bidders)/100, EstimatedDurationSeconds: 0.25}
	}
	if len(bids) == 1 {
		return schemas.TaskBid, messages.AppendTaskBid(nil, &bids[0])
	}
	body, _ = messages.AppendTaskBids(nil, coordinator.AgentID(id), bids) // no more than were offered
	return schemas.TaskBids, body
}

// claim has the claimers claim 50 items at most, again as soon as they are answered.
func claim(ctx context.Context, c *chooser) {
	for i := firstClaimer; i < fleetSize; i++ {
		id := agentID(i)
		c.each(id, func(deliveries <-chan amqp.Delivery) {
			for n := 0; ctx.Err() == nil; n++ {
				c.request(id, schemas.TaskClaim, messages.AppendTaskClaim(nil, &messages.TaskClaim{
					AgentID: coordinator.AgentID(id), ClaimID: fmt.Sprintf("%s-%d", id, n), MaxItems: 50,
					CapacityItemsPerSecond: 10_000, WaitSeconds: 1,
				}))
				lost := time.After(5 * time.Second)
				for answered := false; !answered; {
					select {
					case d, more := <-deliveries:
						answered = !more || d.Type == schemas.TaskGranted
					case <-lost:
						answered = true
					}
				}
			}
		})
	}
}

// traffic has 5 tasks auctioned and 100 claimed a second, and takes them. They come by the queue of high priority, so
// that no backlog of the load holds them up; their numbers are beyond all that are counted.
func traffic(ctx context.Context, c *chooser) {
	for _, queue := range append(queueNames(agentQueue, bidders), queueNames(agentQueue, fleetSize)[firstClaimer:]...) {
		must(c.hear.Consume(queue, "", true, false, false, false, nil))
	}
	go func() {
		for n := 0; ctx.Err() == nil; n++ {
			time.Sleep(time.Second / 105)
			kind := claimed
			if n%21 == 0 {
				kind = auctioned
			}
			_, p := taskOf(500_000_000+n, kind)
			if err := c.say.Publish("", bus.QueueAssignHigh, true, false, p); err != nil {
				c.ended <- err
			}
		}
	}()
}

// victim is a process: an agent that sends heartbeats, takes as many messages as its argument says ("ID COUNT") and
// never ends with them. After a line on its standard input, and before it leaves, it says that it is offline.
func victim(ctx context.Context, url, arg string) {
	var id string
	var holds int
	must(fmt.Sscan(arg, &id, &holds))
	channel := connect(context.Background(), url, id)
	check(channel.Qos(holds, 0, false))
	must(channel.Consume("agent."+id, "", false, false, false, false, nil))
	offline := make(chan string, 1)
	ctx = withInput(ctx, func(line string) { offline <- line })
	// It says that it is idle: what it holds it does not work on, and all its tasks are to be its own.
	state, idle := "ready", report{available: victimSlots}
	beat(channel, id, state, idle)
	sayReady()
	for ticker := time.Tick(time.Second); state != ""; {
		select {
		case <-ticker:
		case <-offline:
			state = "offline"
		case <-ctx.Done():
			beat(channel, id, "offline", idle)
			time.Sleep(100 * time.Millisecond) // until the broker has it
			return
		}
		beat(channel, id, state, idle)
	}
}

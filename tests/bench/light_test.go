package main

import (
	"bufio"
	"context"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/bus/amqpbus"
	"taskbus/messages"
	"taskbus/tests/support/brokertest"
)

func TestTide(t *testing.T) {
	for _, c := range []struct {
		name string
		tags []uint64
		want uint64
	}{
		{"nothing", nil, 0},
		{"in order", []uint64{1, 2, 3}, 3},
		{"the first is missing", []uint64{2, 3}, 0},
		{"one is missing", []uint64{1, 2, 4, 5}, 2},
		{"the missing one comes", []uint64{1, 2, 4, 5, 3}, 5},
		{"two gaps, the first closed", []uint64{1, 3, 5, 2}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got tide
			for _, tag := range c.tags {
				got.add(tag)
			}
			if got.upTo != c.want {
				t.Errorf("after %d all up to %d, want %d", c.tags, got.upTo, c.want)
			}
		})
	}
	var all tide
	for _, i := range rand.Perm(1000) {
		all.add(uint64(i) + 1)
	}
	if all.upTo != 1000 || len(all.above) != 0 {
		t.Errorf("after 1,000 in any order: up to %d, %d remembered", all.upTo, len(all.above))
	}
}

func TestResultsAreValid(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.UTC)
	p := result(agentID(42), amqp.Delivery{MessageId: taskID(7) + ".mwq85dhr.1", CorrelationId: "trace-7"}, now)
	var m messages.TaskResult
	if refusal := decoder(t).DecodeTaskResult(p.Body, &m); refusal != nil {
		t.Fatal(refusal.Text)
	}
	got := m.Result()
	if got.Task != coordinator.TaskID(taskID(7)) || got.Agent != "bench-042" || got.DispatchID != p.MessageId || got.TraceID != "trace-7" ||
		got.Outcome != coordinator.OutcomeSucceeded || got.Duration != 250*time.Microsecond || got.Usage == nil || !got.Timestamp.Equal(now) {
		t.Errorf("%+v", got)
	}
}

// Streams of ours are the service's in everything but their names, or the comparison
// would be of two kinds of streams.
func TestStreamsAreLikeTheServices(t *testing.T) {
	url := brokertest.Vhost(t).URL
	session, err := amqpbus.New(amqpbus.Config{URL: url}).Open(t.Context(), bus.SessionSpec{
		Name: "bench", Topology: bus.Standard(bus.Declare, bus.ProfileQuorum, nil),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := session.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, channel, err := dial(url, "test")
	if err != nil {
		t.Fatal(err)
	}
	// The broker refuses another declaration of a queue with other arguments.
	for _, name := range []string{bus.StreamResult, bus.StreamJournal} {
		if _, err := channel.QueueDeclare(name, true, false, false, false, streamLike(name)); err != nil {
			t.Error(err)
		}
	}
}

// expectLines reads the lines in their order.
func expectLines(t *testing.T, lines *bufio.Reader, want ...string) {
	t.Helper()
	for _, line := range want {
		if got, err := lines.ReadString('\n'); got != line+"\n" {
			t.Fatalf("it says %q (%v), want %q", got, err, line)
		}
	}
}

// role runs one of our processes as a function and gives what it says; it is ended,
// and must not fail, when stop is called.
func role(t *testing.T, run func(context.Context, io.Writer) error) (lines *bufio.Reader, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, in) }()
	return bufio.NewReader(out), func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestLightAgentsTellTheEndOfEveryTaskOnce(t *testing.T) {
	const n = 3000
	url := brokertest.Vhost(t).URL
	b := &bench{broker: open(t, url)}
	all := queues(taskbusQueue)
	if err := b.broker.declare(append(all, bus.QueueAssign)...); err != nil {
		t.Fatal(err)
	}
	if err := b.broker.declare(setAside()...); err != nil {
		t.Fatal(err)
	}
	if err := b.broker.declareStream(streamBare); err != nil {
		t.Fatal(err)
	}
	agents, stopAgents := role(t, func(ctx context.Context, out io.Writer) error { return light(ctx, url, streamBare, n, out) })
	reader, stopReader := role(t, func(ctx context.Context, out io.Writer) error { return read(ctx, url, streamBare, n, out) })
	expectLines(t, agents, "ready")
	expectLines(t, reader, "ready")
	for i := range fleetSize {
		if err := b.broker.fillWith(taskbusQueue(i), i*n/fleetSize, n/fleetSize, dispatched); err != nil {
			t.Fatal(err)
		}
	}
	expectLines(t, agents, "done")
	expectLines(t, reader, "done")
	time.Sleep(afterwork) // for the last acknowledgements, as a run gives it
	stopAgents()
	stopReader()
	if err := b.verifyResults(contender{name: "light", input: bus.QueueAssign, queues: all}, streamBare, newTally(n)); err != nil {
		t.Error(err)
	}
}

// dispatched is as much of a dispatch as a light agent looks at.
func dispatched(n int) amqp.Publishing {
	return amqp.Publishing{DeliveryMode: amqp.Persistent, MessageId: taskID(n) + ".1", CorrelationId: "trace"}
}

// A result too many must not go unnoticed because the last one has been seen.
func TestResultsAreReadToTheEnd(t *testing.T) {
	url := brokertest.Vhost(t).URL
	b := open(t, url)
	if err := b.declareStream(streamBare); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 1, 0} {
		typed := func(n int) amqp.Publishing {
			p := dispatched(n)
			p.Type = bus.StreamResult
			return p
		}
		if err := b.fillWith(streamBare, n, 1, typed); err != nil {
			t.Fatal(err)
		}
	}
	tally := newTally(2)
	if err := b.readResults(streamBare, tally); err != nil {
		t.Fatal(err)
	}
	if err := tally.complete(); err == nil || !strings.Contains(err.Error(), "1 arrived again") {
		t.Errorf("complete: %v, want one that arrived again", err)
	}
}

func TestPlainAgentHoldsOneAndGoes(t *testing.T) {
	url := brokertest.Vhost(t).URL
	b := open(t, url)
	v := victims()[0]
	if err := b.declare(v.queue(), bus.StreamStatus); err != nil {
		t.Fatal(err)
	}
	if err := b.fillWith(v.queue(), 0, victimSlots, dispatched); err != nil {
		t.Fatal(err)
	}
	orders, tell := io.Pipe()
	lines, stop := role(t, func(ctx context.Context, out io.Writer) error { return plainAgent(ctx, url, v.id, orders, out) })
	expectLines(t, lines, "ready")
	if _, err := io.WriteString(tell, "offline\n"); err != nil {
		t.Fatal(err)
	}
	expectLines(t, lines, "ok")
	if ready, err := b.ready(v.queue()); err != nil || ready != victimSlots-v.handed() {
		t.Errorf("%d tasks are ready (%v), want all but %d", ready, err, v.handed())
	}
	stop()
	d := decoder(t)
	channel, err := b.conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []coordinator.AgentStatus{coordinator.StatusReady, coordinator.StatusOffline} {
		msg, ok, err := channel.Get(bus.StreamStatus, true)
		if err != nil || !ok {
			t.Fatalf("heartbeat %d: %v, %v", i, ok, err)
		}
		var m messages.AgentStatus
		if refusal := d.DecodeAgentStatus(msg.Body, &m); refusal != nil {
			t.Fatalf("heartbeat %d is refused: %s", i, refusal.Text)
		}
		if m.Status != want || string(m.AgentID) != v.id || m.AvailableCapacity != victimSlots {
			t.Errorf("heartbeat %d is %+v, want %s", i, m, want)
		}
	}
}

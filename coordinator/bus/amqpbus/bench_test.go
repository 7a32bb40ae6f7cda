package amqpbus_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/bus/amqpbus"
	"taskbus/tests/support/brokertest"
)

// The work of both relays: consume a quorum queue, publish every message
// persistent, mandatory and confirmed to one of 100 quorum queues, acknowledge
// after the confirm. Run with a fixed count, e.g. -benchtime 40000x; the broker
// shares the machine, so cpu-µs/task says more than the rate.
const (
	relayAgents   = 100
	relayPrefetch = 2000
	relayWindow   = 1024
)

func BenchmarkRelay(b *testing.B) {
	b.Run("library", func(b *testing.B) { benchmarkRelay(b, relayLibrary) })
	b.Run("bus", func(b *testing.B) { benchmarkRelay(b, relayBus) })
}

func relayTopology() bus.Topology {
	t := bus.Topology{Mode: bus.Declare, Queues: []bus.Queue{{Name: "in", Kind: bus.Quorum, DeliveryLimit: 1000}}}
	for i := range relayAgents {
		t.Queues = append(t.Queues, bus.Queue{Name: agentQueue(i), Kind: bus.Quorum, DeliveryLimit: 1000})
	}
	return t
}

func agentQueue(i int) string { return fmt.Sprintf("agent.%d", i%relayAgents) }

// relayMessage is of the size of a task.dispatch, about 600 bytes.
func relayMessage(i int) bus.Publication {
	return bus.Publication{
		Token: uint64(i), Key: "in",
		Properties: bus.Properties{
			ContentType: "application/json", Type: "task.dispatch", MessageID: fmt.Sprintf("task-%d.1", i),
			CorrelationID: fmt.Sprintf("trace-%d", i), AppID: "taskbus", Timestamp: time.Unix(1_700_000_000, 0),
		},
		Body: make([]byte, 600),
	}
}

func benchmarkRelay(b *testing.B, relay func(*testing.B, amqpbus.Config)) {
	cfg := config(b, brokertest.Vhost(b).URL)
	var settled atomic.Int64
	all := make(chan struct{})
	s, err := amqpbus.New(cfg).Open(b.Context(), bus.SessionSpec{
		Name: "fill", Topology: relayTopology(),
		OnSettled: func(uint64, bus.Outcome) {
			if settled.Add(1) == int64(b.N) {
				close(all)
			}
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	for i := range b.N {
		if err := s.Publish(relayMessage(i)); err != nil {
			b.Fatal(err)
		}
	}
	<-all
	if err := s.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
	cpu := cpuTime(b)
	b.ResetTimer()
	relay(b, cfg)
	b.StopTimer()
	b.ReportMetric(float64((cpuTime(b)-cpu).Microseconds())/float64(b.N), "cpu-µs/task")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
	b.ReportAllocs()
}

func cpuTime(b *testing.B) time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// relayLibrary is the least a correct program does with the library alone.
func relayLibrary(b *testing.B, cfg amqpbus.Config) {
	publish, consume := dialLibrary(b, cfg), dialLibrary(b, cfg)
	if err := publish.Confirm(false); err != nil {
		b.Fatal(err)
	}
	if err := consume.Qos(relayPrefetch, 0, false); err != nil {
		b.Fatal(err)
	}
	deliveries, err := consume.Consume("in", "", false, false, false, false, nil)
	if err != nil {
		b.Fatal(err)
	}
	type sent struct {
		confirm *amqp.DeferredConfirmation
		tag     uint64
	}
	window := make(chan sent, relayWindow)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 1; n <= b.N; n++ {
			s := <-window
			if !s.confirm.Wait() {
				b.Error("not confirmed")
				return
			}
			if n%64 == 0 || n == b.N {
				if err := consume.Ack(s.tag, true); err != nil {
					b.Error(err)
				}
			}
		}
	}()
	for i := range b.N {
		d := <-deliveries
		confirm, err := publish.PublishWithDeferredConfirm("", agentQueue(i), true, false, amqp.Publishing{
			DeliveryMode: amqp.Persistent, ContentType: d.ContentType, Type: d.Type, MessageId: d.MessageId,
			CorrelationId: d.CorrelationId, AppId: d.AppId, Timestamp: d.Timestamp, Body: d.Body,
		})
		if err != nil {
			b.Fatal(err)
		}
		window <- sent{confirm, d.DeliveryTag}
	}
	<-done
}

func dialLibrary(b *testing.B, cfg amqpbus.Config) *amqp.Channel {
	conn, err := amqp.Dial(cfg.URL)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		b.Fatal(err)
	}
	return ch
}

func relayBus(b *testing.B, cfg amqpbus.Config) {
	tags := make([]bus.Tag, b.N)
	var settled int
	var s bus.Session
	ready, all := make(chan struct{}), make(chan struct{})
	s, err := amqpbus.New(cfg).Open(b.Context(), bus.SessionSpec{
		Name: "relay", Window: relayWindow, Topology: bus.Topology{Mode: bus.Off},
		OnSettled: func(token uint64, outcome bus.Outcome) {
			<-ready
			if outcome != bus.Confirmed {
				b.Errorf("token %d: %v", token, outcome)
			}
			s.Ack(tags[token])
			if settled++; settled == b.N {
				close(all)
			}
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	close(ready)
	i := 0
	err = s.Subscribe(b.Context(), bus.Subscription{Queue: "in", Prefetch: relayPrefetch, Handle: func(d bus.Delivery) {
		tags[i] = d.Tag
		err := s.Publish(bus.Publication{Token: uint64(i), Key: agentQueue(i), Properties: d.Properties, Body: d.Body})
		if err != nil {
			b.Error(err)
		}
		i++
	}})
	if err != nil {
		b.Fatal(err)
	}
	<-all
	if err := s.Close(context.Background()); err != nil {
		b.Fatal(err)
	}
}

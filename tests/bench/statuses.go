package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
)

// report is what all agents say of themselves, and how often.
type report struct {
	active, available int
	perSecond         int // of the whole fleet; 0: once, then silence
}

// statusPace is the time between two bursts of statuses.
const statusPace = 10 * time.Millisecond

// reportStatuses speaks for the whole fleet. Each line "ACTIVE AVAILABLE RATE" of in
// makes every agent report at once, which is answered with "ok" when the broker
// has confirmed it, and then go on in turn, RATE reports a second in all.
func reportStatuses(ctx context.Context, url string, in io.Reader, out io.Writer) error {
	conn, channel, err := dial(url, "statuses")
	if err != nil {
		return err
	}
	if err := channel.Confirm(false); err != nil {
		return fmt.Errorf("switch on confirms: %w", err)
	}
	s := statusSender{channel: channel, out: out}
	err = s.run(ctx, orders(in))
	return errors.Join(err, conn.Close())
}

// orders reads the lines of in; the channel closes with it, or at a line that is
// no order.
func orders(in io.Reader) <-chan report {
	out := make(chan report)
	go func() {
		defer close(out)
		lines := bufio.NewScanner(in)
		for lines.Scan() {
			var r report
			if _, err := fmt.Sscan(lines.Text(), &r.active, &r.available, &r.perSecond); err != nil {
				return
			}
			out <- r
		}
	}()
	return out
}

type statusSender struct {
	channel *amqp.Channel
	out     io.Writer
	say     report
	next    int // agent
}

func (s *statusSender) run(ctx context.Context, orders <-chan report) error {
	ticker := time.NewTicker(statusPace)
	defer ticker.Stop()
	var begun time.Time
	var sent int
	for {
		select {
		case <-ctx.Done():
			return nil
		case order, more := <-orders:
			if !more {
				return nil
			}
			s.say = order
			if err := s.round(); err != nil {
				return err
			}
			if _, err := fmt.Fprintln(s.out, "ok"); err != nil {
				return fmt.Errorf("answer the order: %w", err)
			}
			begun, sent = time.Now(), 0
		case now := <-ticker.C:
			due := int(now.Sub(begun).Seconds() * float64(s.say.perSecond))
			for ; sent < due; sent++ {
				if _, err := s.send(); err != nil {
					return err
				}
			}
		}
	}
}

// round lets every agent report once and waits for the confirms.
func (s *statusSender) round() error {
	var confirms []*amqp.DeferredConfirmation
	for range fleetSize {
		c, err := s.send()
		if err != nil {
			return err
		}
		confirms = append(confirms, c)
	}
	for _, c := range confirms {
		if !c.Wait() {
			return fmt.Errorf("the broker did not confirm a message for %s", bus.StreamStatus)
		}
	}
	return nil
}

func (s *statusSender) send() (*amqp.DeferredConfirmation, error) {
	c, err := s.channel.PublishWithDeferredConfirm("", bus.StreamStatus, true, false, amqp.Publishing{
		DeliveryMode: amqp.Persistent, ContentType: "application/json", Type: "agent.status",
		Body: status(agentID(s.next), "ready", s.say, time.Now()),
	})
	if err != nil {
		return nil, fmt.Errorf("publish to %s: %w", bus.StreamStatus, err)
	}
	s.next = (s.next + 1) % fleetSize
	return c, nil
}

// status is one agent.status of an agent in the state word.
func status(agent, word string, r report, now time.Time) []byte {
	load := float64(r.active) / float64(max(1, r.active+r.available))
	return fmt.Appendf(nil, `{"message_type":"agent.status","agent_id":%q,"status":%q,"current_load":%g,"active_tasks":%d,"available_capacity":%d,"timestamp":%q}`,
		agent, word, load, r.active, r.available, now.UTC().Format(time.RFC3339Nano))
}

// statuses is the generator as the benchmark sees it: a process of its own, so
// that its CPU is nobody else's.
type statuses struct{ process *process }

func startStatuses(ctx context.Context, log string) (*statuses, error) {
	p, err := startSelf(ctx, "statuses", log, "statuses")
	if err != nil {
		return nil, err
	}
	return &statuses{p}, nil
}

// say makes the whole fleet report now, and go on as r tells.
func (s *statuses) say(r report) error {
	if _, err := fmt.Fprintf(s.process.stdin, "%d %d %d\n", r.active, r.available, r.perSecond); err != nil {
		return fmt.Errorf("tell the generator of statuses what to send: %w", err)
	}
	return s.process.expect("ok", 15*time.Second)
}

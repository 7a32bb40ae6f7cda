package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
)

// The load under which leaders are killed.

// load is a steady trickle of tasks until finish, and an ear for their results.
type load struct {
	enough   chan struct{} // closed when no more tasks should be sent
	ended    chan loadEnd
	results  sync.WaitGroup
	conn     *amqp.Connection
	complete chan struct{} // closed when every task that was sent has a result

	mu      sync.Mutex
	tally   *tally
	sent    int // in all; -1: more will be
	last    time.Time
	longest time.Duration
}

type loadEnd struct {
	sent int
	err  error
}

// mostLoad is how many tasks a load has at most.
const mostLoad = 10 * 60 * latencyRate

func startLoad(ctx context.Context, b *bench) (*load, error) {
	conn, channel, err := dial(b.url, "results")
	if err != nil {
		return nil, err
	}
	deliveries, err := consumeStream(channel, bus.StreamResult, "next", readPrefetch)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	l := &load{
		enough: make(chan struct{}), ended: make(chan loadEnd, 1), conn: conn, complete: make(chan struct{}),
		tally: newTally(mostLoad), sent: -1, last: time.Now(),
	}
	l.results.Go(func() { l.listen(deliveries) })
	go func() {
		sent, err := b.trickleUntil(ctx, l.enough)
		l.ended <- loadEnd{sent, err}
	}()
	return l, nil
}

// trickleUntil publishes tasks at an even pace until enough is closed, and says how
// many.
func (b *bench) trickleUntil(ctx context.Context, enough <-chan struct{}) (sent int, err error) {
	conn, channel, err := dial(b.url, "producer")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	begin := time.Now()
	due := func(i int) time.Time { return begin.Add(time.Duration(i) * time.Second / latencyRate) }
	const piece = latencyRate / 10
	for sent+piece <= mostLoad {
		select {
		case <-enough:
			return sent, nil
		default:
		}
		if err := trickleOver(ctx, channel, bus.QueueAssign, sent, piece, due, task); err != nil {
			return sent, err
		}
		sent += piece
	}
	return sent, nil
}

// listen counts results until the connection is closed.
func (l *load) listen(deliveries <-chan amqp.Delivery) {
	for d := range deliveries {
		at := time.Now()
		if acknowledgeSome(d) != nil {
			return // finish misses the rest
		}
		if d.Type != bus.StreamResult {
			continue // a fence of the service
		}
		l.mu.Lock()
		l.longest, l.last = max(l.longest, at.Sub(l.last)), at
		l.tally.count(d.MessageId)
		l.look()
		l.mu.Unlock()
	}
}

// look sees whether that was all. l.mu is held.
func (l *load) look() {
	if l.sent == l.tally.arrived {
		l.sent = -1 // no second time
		close(l.complete)
	}
}

// pause is the longest time without a result since it was asked for last.
func (l *load) pause() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	longest := max(l.longest, time.Since(l.last))
	l.longest, l.last = 0, time.Now()
	return longest
}

// finish ends the load and waits for the last results. The tally is of what was sent.
func (l *load) finish() (*tally, error) {
	close(l.enough)
	end := <-l.ended
	l.mu.Lock()
	l.sent = end.sent
	l.look()
	l.mu.Unlock()
	select {
	case <-l.complete:
		time.Sleep(afterwork) // for results that come again
	case <-time.After(lastArrival):
	}
	err := errors.Join(end.err, l.conn.Close())
	l.results.Wait()
	l.tally.seen = slices.Clip(l.tally.seen[:end.sent])
	return l.tally, err
}

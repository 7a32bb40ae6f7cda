package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// byChance says when n tasks from number first on are due: one in every pace, at a moment
// by chance. At a fixed pace the same things would always coincide, such as the end of
// one auction with the late bids of another, or never.
func byChance(first, n int, pace time.Duration) (due func(i int) time.Time) {
	chance, all, begin := rand.New(rand.NewPCG(1, uint64(first))), make([]time.Time, n), time.Now().Add(pace)
	for i := range all {
		all[i] = begin.Add(time.Duration((float64(i) + chance.Float64()) * float64(pace)))
	}
	return func(i int) time.Time { return all[i-first] }
}

// hopQueue is where hops go.
const hopQueue = "bench.hop"

// startHops sends n tasks through a quorum queue of their own, beside what is measured
// meanwhile. The result waits for them, and gives what each took from when it was due to
// be published.
func (b *bench) startHops(ctx context.Context, n int, pace time.Duration) (result func() ([]time.Duration, error)) {
	var samples []time.Duration
	done := make(chan error, 1)
	go func() {
		var err error
		samples, err = b.hops(ctx, n, pace)
		done <- err
	}()
	return func() ([]time.Duration, error) {
		err := <-done
		return samples, err
	}
}

func (b *bench) hops(ctx context.Context, n int, pace time.Duration) (samples []time.Duration, err error) {
	conn, channel, err := dial(b.url, "hops")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := channel.QueueDeclare(hopQueue, true, false, false, false, quorum()); err != nil {
		return nil, fmt.Errorf("declare the queue %s: %w", hopQueue, err)
	}
	arrivals, err := consumePlaced(channel, []string{hopQueue})
	if err != nil {
		return nil, err
	}
	due := byChance(0, n, pace)
	if err := b.trickleWith(ctx, hopQueue, 0, n, due, task); err != nil {
		return nil, err
	}
	late := time.After(lastArrival)
	for len(samples) < n {
		select {
		case a := <-arrivals:
			i, known := taskNumber(a.messageID)
			if !known || i >= n {
				return nil, fmt.Errorf("%s has a strange message", hopQueue)
			}
			samples = append(samples, a.at.Sub(due(i)))
		case <-late:
			return nil, fmt.Errorf("%d of %d messages have come through %s", len(samples), n, hopQueue)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	_, err = channel.QueueDelete(hopQueue, false, false, false)
	return samples, err
}

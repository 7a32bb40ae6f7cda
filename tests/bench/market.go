package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
)

// marketResult is what it costs to ask agents before one of them gets a task.
type marketResult struct {
	Bidders int `json:"bidders"`
	// Window is of auctions whose window runs out: what a task takes from its acceptance
	// to its delivery, less the window. (From the choice of the agent, and how much later
	// than its window the mean auction ended.) Whole is the same from the publish on, and
	// Push, for comparison, of tasks between them that nobody is asked about.
	Window latencyRun `json:"window_beyond"`
	Whole  latencyRun `json:"window_beyond_from_publish"`
	Push   latencyRun `json:"push_from_publish"`
	// Hop is one message through a quorum queue, from publish to delivery, at the same time:
	// what the broker alone takes.
	Hop latencyRun `json:"hop_from_publish"`
	// Early is of auctions that end because all have answered, from the publish on.
	Early latencyRun `json:"early_from_publish"`
	// WithoutBids is how many of all these auctions were decided without bids, which came
	// too late.
	WithoutBids int `json:"decided_without_bids"`
	// AtOnce are auctions that begin together.
	AtOnce []atOnceRun `json:"at_once"`
}

// atOnceRun is many auctions at the same time.
type atOnceRun struct {
	Slots    int `json:"slots_of_each_bidder"`
	Auctions int `json:"auctions"`
	// Awarded of them, the others were decided without bids; Bids is how many counted.
	Awarded int `json:"awarded"`
	Bids    int `json:"bids"`
	// Seconds from the first publish to the last delivery, and CPU of the service.
	Seconds   float64 `json:"seconds"`
	CPUMillis float64 `json:"cpu_ms_per_auction"`
}

const (
	marketWindow = 100 * time.Millisecond
	marketCount  = 200                   // auctions at once
	windowCount  = 500                   // auctions one after the other: five are slower than the p99
	marketPace   = 60 * time.Millisecond // between two of these on average
	marketRounds = 3                     // of auctions at once
	amplySlots   = 100_000
	// ceilingAtOnce is the longest window where all answer at once: the default.
	ceilingAtOnce = 500 * time.Millisecond
)

// Task types of those who choose.
const (
	auctioned = "auctioned"
	claimed   = "claimed"
)

// choosersFile is the agents.yaml of a fleet of which a part chooses. Bids count as
// they are claimed and everybody is asked, as in ADR-004, between a window of
// marketWindow and the ceiling.
func choosersFile(slots int, ceiling time.Duration, claimers string) []byte {
	var b strings.Builder
	b.WriteString("agents:\n")
	for i := range fleetSize {
		can, mode := strings.Join(skills(i), ", "), "push"
		switch {
		case i < bidderCount:
			can = "bid"
		case i >= firstClaimer:
			can, mode = "fetch", claimers
		}
		fmt.Fprintf(&b, "  %s: {capabilities: [%s], max_concurrent_tasks: %d, mode: %s, health_check_interval: 5, accept_timeout_seconds: 3600}\n",
			agentID(i), can, slots, mode)
	}
	b.WriteString("task_routing:\n")
	for _, k := range kinds {
		fmt.Fprintf(&b, "  %s: {required_capabilities: [%s]}\n", k.name, strings.Join(k.requires, ", "))
	}
	fmt.Fprintf(&b, "  %s: {required_capabilities: [bid], strategy: market}\n  %s: {required_capabilities: [fetch]}\n", auctioned, claimed)
	fmt.Fprintf(&b, "assignment_strategies:\n  load_balanced: {default: true}\n  market: {bid_window_ms: %d, min_bid_window_ms: %d, invite: all, fitness: reported}\n",
		ceiling.Milliseconds(), marketWindow.Milliseconds())
	b.WriteString("global_settings: {stale_agent_threshold_seconds: 600, assignment_timeout_seconds: 60}\n")
	return []byte(b.String())
}

// bazaar is the service with bidders, and us as all that comes of it.
type bazaar struct {
	b        *bench
	s        *subject
	arrivals <-chan placed
	close    func() error
	next     int // number of a task
}

// startBazaar starts the service and its bidders, and begins to take all dispatches.
func (b *bench) startBazaar(ctx context.Context, fleet []byte, late int) (z *bazaar, err error) {
	if err := b.broker.clean(); err != nil {
		return nil, err
	}
	s, err := startTaskbus(ctx, b, fleet, unlimited(standbyStatuses))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.abandon()
		}
	}()
	if _, err := s.with(ctx, b, "bidders", strconv.Itoa(late)); err != nil {
		return nil, err
	}
	conn, channel, err := dial(b.url, "agents")
	if err != nil {
		return nil, err
	}
	arrivals, err := consumePlaced(channel, queues(taskbusQueue))
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &bazaar{b: b, s: s, arrivals: arrivals, close: conn.Close}, nil
}

// end stops everything, and sees that nothing is left; after a fault it only stops.
func (z *bazaar) end(fault error) error {
	err := errors.Join(z.s.stop(), z.close())
	if fault != nil {
		return fault
	}
	_, c := contenders()
	return errors.Join(err, z.b.verifyEmpty(c))
}

// placed is a task as an agent gets it.
type placed struct {
	messageID string
	decided   time.Time // when the service chose the agent, in the message; on its clock, which is ours
	at        time.Time
}

// consumePlaced is every agent at once: each takes what it gets.
func consumePlaced(channel *amqp.Channel, queues []string) (<-chan placed, error) {
	arrivals := make(chan placed, 1000)
	for _, queue := range queues {
		deliveries, err := channel.Consume(queue, "", true, false, false, false, nil)
		if err != nil {
			return nil, fmt.Errorf("consume %s: %w", queue, err)
		}
		go func() {
			for d := range deliveries {
				at := time.Now()
				var m struct {
					AssignmentTime time.Time `json:"assignment_time"`
				}
				_ = json.Unmarshal(d.Body, &m) // a time that is none shows in the figures
				arrivals <- placed{d.MessageId, m.AssignmentTime, at}
			}
		}()
	}
	return arrivals, nil
}

// timed is what one task took.
type timed struct {
	whole   time.Duration // from when it was due to be published until it was delivered
	decided time.Duration // from the choice of its agent
}

// steadily publishes n tasks, one in every pace, of the types that kind gives for them (any
// pushed one where that is empty), and times them, in this order. Every task must come,
// and once.
func (z *bazaar) steadily(ctx context.Context, n int, pace time.Duration, kind func(i int) string) ([]timed, error) {
	first := z.next
	z.next += n
	due := byChance(first, n, pace)
	published := make(chan error, 1)
	go func() {
		published <- z.b.trickleWith(ctx, bus.QueueAssign, first, n, due, func(i int) amqp.Publishing {
			if k := kind(i - first); k != "" {
				return taskOf(i, k)
			}
			return task(i)
		})
	}()
	seen, samples := newTally(z.next), make([]timed, n)
	late := time.After(time.Duration(n)*pace + lastArrival)
	for seen.arrived < n {
		select {
		case a := <-z.arrivals:
			if i, isFirst := seen.count(a.messageID); isFirst && i >= first {
				samples[i-first] = timed{a.at.Sub(due(i)), a.at.Sub(a.decided)}
			}
		case err := <-published:
			if err != nil {
				return nil, err
			}
			published = nil
		case <-late:
			return nil, fmt.Errorf("%d of %d tasks have arrived", seen.arrived, n)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if seen.twice+seen.strange > 0 {
		return nil, seen.complete()
	}
	return samples, nil
}

// market measures all of that.
func (b *bench) market(ctx context.Context) (r marketResult, err error) {
	r.Bidders = bidderCount
	if err := b.windows(ctx, &r); err != nil {
		return r, err
	}
	for _, slots := range []int{amplySlots, marketCount / bidderCount} {
		if err := b.allAtOnce(ctx, slots, &r); err != nil {
			return r, err
		}
	}
	return r, nil
}

// windows measures single auctions, or nearly: those whose window runs out, because some
// answer too late, and those that everybody answers.
func (b *bench) windows(ctx context.Context, r *marketResult) error {
	for _, late := range []int{biddersLate, 0} {
		z, err := b.startBazaar(ctx, choosersFile(amplySlots, marketWindow, "pull"), late)
		if err != nil {
			return err
		}
		if err := z.end(z.window(ctx, late, r)); err != nil {
			return err
		}
	}
	return nil
}

func allAuctioned(int) string { return auctioned }

// every second task is auctioned, the others are pushed.
func everySecond(i int) string { return [...]string{auctioned, ""}[i%2] }

func (z *bazaar) window(ctx context.Context, late int, r *marketResult) error {
	// The first auctions teach how long answers take.
	if _, err := z.steadily(ctx, 3, 4*marketPace, allAuctioned); err != nil {
		return err
	}
	time.Sleep(lateBid)
	before, err := z.s.metrics(ctx)
	if err != nil {
		return err
	}
	hops := z.b.startHops(ctx, windowCount, marketPace)
	samples, err := z.steadily(ctx, 2*windowCount, marketPace/2, everySecond)
	hop, hopErr := hops()
	if err := errors.Join(err, hopErr); err != nil {
		return err
	}
	after, err := z.s.metrics(ctx)
	if err != nil {
		return err
	}
	r.WithoutBids += windowCount - int(after[awardedMetric]-before[awardedMetric])
	const took = "taskbus_auction_duration_seconds_sum"
	overtime := time.Duration((after[took]-before[took])/windowCount*1e9) - marketWindow // of the mean auction
	var whole, pushed, decided []time.Duration
	for i, s := range samples {
		if everySecond(i) == "" {
			pushed = append(pushed, s.whole)
			continue
		}
		whole = append(whole, s.whole)
		decided = append(decided, s.decided+overtime)
	}
	summarised := func(subject string, samples []time.Duration) latencyRun {
		l := summarise(subject, samples)
		l.PerSecond = int(2 * time.Second / marketPace)
		return l
	}
	if late == 0 {
		r.Early = summarised("early", whole)
		return nil
	}
	for i := range whole {
		if whole[i] -= marketWindow; whole[i] < 0 {
			return fmt.Errorf("an auction ended %s before its window did", -whole[i])
		}
	}
	r.Hop = summarised("hop", hop)
	r.Hop.PerSecond /= 2
	r.Window, r.Whole, r.Push = summarised("window", decided), summarised("window", whole), summarised("push", pushed)
	return nil
}

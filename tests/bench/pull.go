package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
)

// pullRun is one backlog that goes to claimerCount agents, which take it out of their
// queues at once and never end with it.
type pullRun struct {
	// Mode of the agents: "push", or one in which they claim.
	Mode        string  `json:"mode"`
	Tasks       int     `json:"tasks"`
	Seconds     float64 `json:"seconds"` // from the release to the last delivery
	TasksPerSec float64 `json:"tasks_per_second"`
	CPUMicros   float64 `json:"cpu_microseconds_per_task"`
	// Claims that were answered; 0 where nobody claims.
	Claims int `json:"claims"`
}

// The modes that are compared.
const (
	modePush = "push"
	modePull = "pull"
)

// pulled has the service work off a backlog. The release is that of throughput, but the
// agents consume, because who claims must.
func (b *bench) pulled(ctx context.Context, mode string, n int) (run pullRun, err error) {
	if err := b.broker.clean(); err != nil {
		return run, err
	}
	s, err := startTaskbus(ctx, b, choosersFile(amplySlots, ceilingAtOnce, mode), unlimited(0))
	if err != nil {
		return run, err
	}
	defer func() {
		if err != nil {
			s.abandon()
		}
	}()
	conn, channel, err := dial(b.url, "agents")
	if err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	arrivals, err := consumeAll(channel, queues(taskbusQueue)[firstClaimer:])
	if err != nil {
		return run, err
	}
	if mode != modePush {
		if _, err := s.with(ctx, b, "claimers"); err != nil {
			return run, err
		}
	}
	_, c := contenders()
	if err := s.process.freeze(); err != nil {
		return run, err
	}
	if err := b.broker.fillWith(c.input, 0, n, func(i int) amqp.Publishing { return taskOf(i, claimed) }); err != nil {
		return run, err
	}
	before, err := s.process.stat()
	if err != nil {
		return run, err
	}
	released := time.Now()
	if err := s.process.thaw(); err != nil {
		return run, err
	}
	t := newTally(n)
	quiet := time.NewTimer(arrivalGrace)
	defer quiet.Stop()
	for t.arrived < n {
		select {
		case a := <-arrivals:
			t.count(a.messageID)
			quiet.Reset(arrivalGrace)
		case <-quiet.C:
			return run, fmt.Errorf("nothing has come for %s: %w", arrivalGrace, t.complete())
		case <-ctx.Done():
			return run, ctx.Err()
		}
	}
	elapsed := time.Since(released)
	time.Sleep(afterwork)
	run = pullRun{Mode: mode, Tasks: n, Seconds: elapsed.Seconds(), TasksPerSec: float64(n) / elapsed.Seconds()}
	if run.CPUMicros, err = s.process.cpuPer(n, before); err != nil {
		return run, err
	}
	m, err := s.metrics(ctx)
	if err != nil {
		return run, err
	}
	granted := 0.0
	if mode != modePush {
		granted = float64(n)
	}
	if got := m["taskbus_granted_items_total"]; got != granted {
		return run, fmt.Errorf("%.0f tasks were granted, expected %.0f", got, granted)
	}
	for name, value := range m {
		if len(name) > len(claimsMetric) && name[:len(claimsMetric)] == claimsMetric {
			run.Claims += int(value)
		}
	}
	if err := s.stop(); err != nil {
		return run, err
	}
	return run, b.verifyTrickle(c, arrivals, t)
}

const claimsMetric = "taskbus_claims_total{"

// The traffic of those who choose beside what is pushed, a second.
const (
	besideAuctions = 5 // of bidderCount bidders
	besideClaimed  = 100
	// besideFirst is the number of the first such task: beyond all that are counted.
	besideFirst = 500_000_000
)

// besideTraffic has tasks auctioned and claimed at these rates. They come by the queue
// of high priority, so that no backlog of the other holds them up.
func (c *choosers) besideTraffic(ctx context.Context) error {
	if err := errors.Join(c.bidders(ctx, 0), c.claimers(ctx)); err != nil {
		return err
	}
	all := queues(taskbusQueue)
	for _, queue := range append(all[:bidderCount:bidderCount], all[firstClaimer:]...) {
		deliveries, err := c.hear.Consume(queue, "", true, false, false, false, nil)
		if err != nil {
			return fmt.Errorf("consume %s: %w", queue, err)
		}
		go func() {
			for range deliveries { // nobody counts them
			}
		}()
	}
	go func() {
		ticker := time.NewTicker(time.Second / (besideAuctions + besideClaimed))
		defer ticker.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			kind := claimed
			if n%((besideAuctions+besideClaimed)/besideAuctions) == 0 {
				kind = auctioned
			}
			if err := c.say.PublishWithContext(ctx, "", bus.QueueAssignHigh, true, false, taskOf(besideFirst+n, kind)); err != nil {
				c.ended <- fmt.Errorf("publish a task to be chosen: %w", err)
				return
			}
		}
	}()
	return nil
}

// besideNames are the two ways in which tasks are pushed to the rest of the fleet.
const (
	besideNothing  = "push alone"
	besideChoosing = "push beside market and pull"
)

// besides are the service with the same fleet, without such traffic and with it.
func besides() []contender {
	of := func(name string, traffic bool) contender {
		return contender{name: name, input: bus.QueueAssign, queues: queues(taskbusQueue)[bidderCount:firstClaimer], start: func(ctx context.Context, b *bench) (*subject, error) {
			s, err := startTaskbus(ctx, b, choosersFile(amplySlots, ceilingAtOnce, modePull), unlimited(0))
			if err == nil && traffic {
				if _, err = s.with(ctx, b, "traffic"); err != nil {
					s.abandon()
				}
			}
			return s, err
		}}
	}
	return []contender{of(besideNothing, false), of(besideChoosing, true)}
}

// besideResult is what pushing costs without and with those who choose beside it.
type besideResult struct {
	Auctions   int             `json:"auctions_per_second"`
	Claimed    int             `json:"claimed_tasks_per_second"`
	Throughput []throughputRun `json:"throughput"`
	Latency    []latencyRun    `json:"latency"`
}

// beside measures it, in turn.
func (b *bench) beside(ctx context.Context) (r besideResult, err error) {
	r.Auctions, r.Claimed = besideAuctions, besideClaimed
	pair, rounds, length := besides(), 3, 3*time.Second
	if b.options.quick {
		rounds = 1
	}
	for i := range rounds {
		for _, c := range pair {
			t, err := b.throughput(ctx, c, b.resultsTasks())
			if err != nil {
				return r, err
			}
			l, err := b.latency(ctx, c, length)
			if err != nil {
				return r, err
			}
			b.say("%s %d/%d: %6.0f tasks/s %6.1f µs CPU per task; p50 %.2f ms, p99 %.2f ms",
				c.name, i+1, rounds, t.TasksPerSec, t.CPUMicros, l.P50Millis, l.P99Millis)
			r.Throughput, r.Latency = append(r.Throughput, t), append(r.Latency, l)
		}
		pair[0], pair[1] = pair[1], pair[0]
	}
	return r, nil
}

// serveChoosing is the roles of those who choose; false: it is none of them.
func serveChoosing(ctx context.Context, url, role, arg string, out io.Writer) (bool, error) {
	switch role {
	case "bidders":
		late, err := strconv.Atoi(arg)
		if err != nil || late < 0 || late > bidderCount {
			return true, fmt.Errorf("bidders %q: say how many are late", arg)
		}
		return true, serveChoosers(ctx, url, out, func(ctx context.Context, c *choosers) error { return c.bidders(ctx, late) })
	case "claimers":
		return true, serveChoosers(ctx, url, out, func(ctx context.Context, c *choosers) error { return c.claimers(ctx) })
	case "traffic":
		return true, serveChoosers(ctx, url, out, func(ctx context.Context, c *choosers) error { return c.besideTraffic(ctx) })
	}
	return false, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
)

// Overload: tasks come at one and a half times the rate at which the fleet does them, with all the
// defaults but for an assignment timeout that is far shorter than most of them wait. None may fail.
// One in a hundred is critical, on task.assign.high.
const (
	burstTasks   = 50_000
	burstTakes   = 2 * time.Second // of each task
	burstTimeout = 2 * time.Second
	urgentEvery  = 100
	// What the fleet can do, and what comes.
	burstCapacity = fleetSize * cycleSlots * int(time.Second) / int(burstTakes) // 500/s
	burstRate     = burstCapacity * 3 / 2
)

// burstRun is one overload.
type burstRun struct {
	Tasks     int     `json:"tasks"`
	Capacity  int     `json:"capacity_per_second"`
	PerSecond int     `json:"tasks_per_second"`
	Seconds   float64 `json:"seconds"` // until the last result
	Failed    uint64  `json:"failed"`
	Moved     float64 `json:"moved_per_task"` // to lanes
	CPUMicros float64 `json:"cpu_microseconds_per_task"`
	PeakRSS   int64   `json:"peak_rss_bytes"`
	// From when a task was due to its result, the work included.
	Normal latencyRun `json:"normal"`
	Urgent latencyRun `json:"urgent"`
}

func isUrgent(n int) bool { return n%urgentEvery == urgentEvery-1 }

// burstFleet is an agents.yaml of defaults: nothing is said of window, lanes or what may wait.
func burstFleet() []byte {
	return append(fleetFileWith(cycleSlots, allSkills, ""),
		fmt.Sprintf("global_settings: {assignment_timeout_seconds: %d}\n", int(burstTimeout.Seconds()))...)
}

// burst overloads the fleet with n tasks and waits until all of them have an outcome.
func (b *bench) burst(ctx context.Context, n int) (run burstRun, err error) {
	if err := b.broker.clean(); err != nil {
		return run, err
	}
	s, err := launchTaskbus(ctx, b, burstFleet())
	if err != nil {
		return run, err
	}
	defer func() {
		if err != nil {
			s.abandon()
		}
	}()
	if _, err = s.with(ctx, b, "fleet", burstTakes.String()); err != nil {
		return run, err
	}
	if err := s.awaitOnline(ctx, fleetSize); err != nil {
		return run, err
	}
	conn, channel, err := dial(b.url, "results")
	if err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	deliveries, err := consumeStream(channel, bus.StreamResult, "next", readPrefetch)
	if err != nil {
		return run, err
	}
	before, err := s.process.stat()
	if err != nil {
		return run, err
	}
	begin := time.Now().Add(100 * time.Millisecond)
	due := func(i int) time.Time { return begin.Add(time.Duration(i) * time.Second / time.Duration(burstRate)) }
	published := make(chan error, 1)
	go func() { published <- b.publishBurst(ctx, n, due) }()

	var normal, urgent []time.Duration
	progress := newProgress(arrivalGrace)
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for done := 0; done+int(run.Failed) < n; {
		select {
		case d, more := <-deliveries:
			at := time.Now()
			if !more {
				return run, fmt.Errorf("the broker stopped delivering from %s", bus.StreamResult)
			}
			if i, ours := taskNumber(d.MessageId); ours && d.Type == bus.StreamResult {
				if done++; isUrgent(i) {
					urgent = append(urgent, at.Sub(due(i)))
				} else {
					normal = append(normal, at.Sub(due(i)))
				}
			}
			err = acknowledgeSome(d)
		case err = <-published:
			published = nil
		case <-look.C:
			var status serviceStatus
			if status, err = s.status(ctx); err == nil {
				run.Failed = failedOf(&status)
				err = b.stuck(ctx, s, progress, done)
			}
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err != nil {
			return run, fmt.Errorf("%d of %d tasks are done, %d failed: %w", done, n, run.Failed, err)
		}
	}
	run.Seconds = time.Since(begin).Seconds()
	time.Sleep(afterwork)
	status, err := s.status(ctx)
	if err != nil {
		return run, err
	}
	metrics, err := s.metrics(ctx)
	if err != nil {
		return run, err
	}
	run.Tasks, run.Capacity, run.PerSecond = n, burstCapacity, burstRate
	run.Failed, run.Moved = failedOf(&status), sumOf(metrics, "taskbus_tasks_moved_total")/float64(n)
	run.Normal, run.Urgent = summarise("normal", normal), summarise("critical", urgent)
	if run.CPUMicros, err = s.process.cpuPer(n, before); err != nil {
		return run, err
	}
	if _, run.PeakRSS, err = s.process.memory(); err != nil {
		return run, err
	}
	return run, s.stop()
}

// failedOf counts the tasks that failed for whatever reason.
func failedOf(status *serviceStatus) uint64 { return status.Counters.Failed + status.Counters.TimedOut }

// publishBurst publishes n tasks at an even pace, the urgent ones to the queue that is for them.
func (b *bench) publishBurst(ctx context.Context, n int, due func(int) time.Time) (err error) {
	normal, err := b.broker.feed(bus.QueueAssign)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, normal.close()) }()
	urgent, err := b.broker.feed(bus.QueueAssignHigh)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, urgent.close()) }()
	for i := range n {
		time.Sleep(time.Until(due(i)))
		if err := ctx.Err(); err != nil {
			return err
		}
		to, priority := normal, coordinator.PriorityNormal
		if isUrgent(i) {
			to, priority = urgent, coordinator.PriorityCritical
		}
		if err := to.send(burstTask(i, priority)); err != nil {
			return err
		}
	}
	return nil
}

func burstTask(n int, p coordinator.Priority) amqp.Publishing {
	id := taskID(n)
	return amqp.Publishing{
		DeliveryMode: amqp.Persistent, ContentType: "application/json", Type: "task.assign", MessageId: id, AppId: "bench",
		Body: fmt.Appendf(nil, `{"message_type":"task.assign","task_id":%q,"task_type":%q,"priority":%d,"payload":{"number":%d}}`,
			id, kinds[n%len(kinds)].name, p, n),
	}
}

// judgeBurst is whether none failed.
func (r *results) judgeBurst() verdict {
	v := verdict{What: fmt.Sprintf("%d tasks at 150 %% load, failed", burstTasks), Target: "0", Word: notMeasured}
	if r.Burst.Tasks == 0 {
		return v
	}
	x := r.Burst
	v.What = fmt.Sprintf("%d tasks at 150 %% load, failed", x.Tasks)
	return v.measured(x.Failed == 0, fmt.Sprint(x.Failed),
		fmt.Sprintf("%d/s for %d agents that do %d/s, all done after %.0f s; timeout %.0f s; to the result p50 %.1f s, p99 %.1f s; critical, one in %d: %.1f s and %.1f s; moved to lanes %.2f times each; CPU per task %.0f µs; at most %d MiB",
			x.PerSecond, fleetSize, x.Capacity, x.Seconds, burstTimeout.Seconds(), x.Normal.P50Millis/1e3, x.Normal.P99Millis/1e3,
			urgentEvery, x.Urgent.P50Millis/1e3, x.Urgent.P99Millis/1e3, x.Moved, x.CPUMicros, x.PeakRSS>>20))
}

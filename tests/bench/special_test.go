package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/agent"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/journal"
	"taskbus/schemas"
)

// What a load alone does not show: memory, a large fleet at rest, and what follows when a process ends.

// shorter is a time of the measures here, in a quick look a fifth of it.
func shorter(d time.Duration) time.Duration {
	if *quick {
		return d / 5
	}
	return d
}

// resident fills every slot of the fleet with dispatches that do not end, and then the queue with as many tasks again.
func resident(r *rig) {
	const n = fleetSize * sdkSlots
	r.start()
	r.report.Store(&report{available: sdkSlots})
	highest := func() (most float64) {
		for range 20 {
			now, _, err := r.service.memory()
			check(err)
			most = max(most, now)
			time.Sleep(100 * time.Millisecond)
		}
		return most
	}
	r.fill(0, n, task)
	r.awaitReady(n, r.queues()...)
	r.report.Store(&report{active: sdkSlots, perSecond: 1000})
	r.ReportMetric(highest(), "resident-MiB")
	r.fill(n, n, task)
	r.ReportMetric(highest(), "with-as-many-waiting-MiB")
	check(r.stop(), "stop")
	e := newEar(2 * n)
	r.consume(e, append(r.queues(), bus.QueueAssign)...)
	r.await(nil, "every task", 2*n, 20*time.Millisecond, e.count)
	check(e.complete())
}

// BenchmarkDedupeWindow is what an id takes in a dedupe window, whatever it is kept in: how much the heap grows with
// it. The ids come as they do from the journal.
func BenchmarkDedupeWindow(b *testing.B) {
	alive := func() float64 {
		var s runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&s)
		return float64(s.HeapAlloc)
	}
	sizes := []int{20_000, 100_000, 1_000_000, 1_500_000}
	e, now, ids, most := engine.New(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), 0, 0.0
	e.Follow()
	settings := coordinator.Settings{DedupeWindow: time.Hour, DedupeMaxIDs: 2 * sizes[len(sizes)-1]}
	e.Apply(now, coordinator.PolicyChanged{Policy: &coordinator.Policy{Settings: settings}}, nil)
	alive() // what others have left goes at the second collection at the latest
	empty := alive()
	for _, size := range sizes {
		for ; ids < size; ids++ {
			key := coordinator.KeyOf(coordinator.TaskID(taskID(ids)))
			e.Fold(now, &coordinator.Remembered{Key: key, Content: uint64(ids), Fate: coordinator.FateSucceeded,
				Seen: now, Attempt: 1})
		}
		each := (alive() - empty) / float64(size)
		most = max(most, each)
		b.ReportMetric(each, fmt.Sprint("B/id-of-", size))
	}
	runtime.KeepAlive(e)
	b.ReportMetric(most, "most-B/id")
	b.ReportMetric(0, "ns/op")
}

// percent is the CPU time of the coming while, of a core.
func percent(watch time.Duration, of ...*service) []float64 {
	before, begun, shares := make([]time.Duration, len(of)), time.Now(), make([]float64, len(of))
	for i, s := range of {
		before[i] = s.cpu()
	}
	time.Sleep(watch)
	for i, s := range of {
		shares[i] = 100 * float64(s.cpu()-before[i]) / float64(time.Since(begun))
	}
	return shares
}

// looks measures the service with a thousand agents that are idle, and with a task in each agent's hands: heartbeats
// at the default interval, and knowing at once of an agent that is killed.
func looks(r *rig) {
	const crowd, interval = 1000, 30 * time.Second
	id := func(i int) string { return fmt.Sprintf("look-%03d", i%crowd) }
	all := queueNames(func(i int) string { return "agent." + id(i) }, crowd)
	file := "agents:\n"
	for i := range crowd {
		file += fmt.Sprintf("  %s: {capabilities: [look], max_concurrent_tasks: 1%s}\n", id(i), patient)
	}
	defer r.remove(all)
	r.service = r.launch("taskbus", file+"task_routing:\n  look: {required_capabilities: [look]}\n", "ready")
	r.with(func(ctx context.Context, r *rig, ready func()) {
		channel := connect(ctx, r.url, "crowd")
		check(channel.Qos(1, 0, false))
		var holding [crowd]<-chan amqp.Delivery
		for i, queue := range all {
			holding[i] = must(channel.Consume(queue, "", false, false, false, false, nil))
		}
		var active [crowd]int
		for i, ticker := 0, time.Tick(interval/crowd); ctx.Err() == nil; i++ {
			select {
			case <-holding[i%crowd]:
				active[i%crowd] = 1
			default:
			}
			a := active[i%crowd]
			beat(channel, id(i), "ready", report{active: a, available: 1 - a})
			if i >= crowd { // all of them once, at once
				ready()
				<-ticker
			}
		}
	})
	r.online(crowd)
	for _, state := range []string{"idle-%", "busy-%"} {
		time.Sleep(shorter(10 * time.Second))
		r.ReportMetric(percent(shorter(time.Minute), r.service)[0], state)
		if state == "idle-%" {
			r.fill(0, crowd, func(n int) (string, amqp.Publishing) { return taskOf(n, "look") })
			r.awaitStatus("dispatches", crowd, dispatched)
		}
	}
	check(r.stop())
}

const (
	rescuer     = "rescue"
	victimSlots = 10
	stale       = 3 * time.Second
)

// victims are agents by the way in which they leave. What one has in hand is not ready in its queue.
var (
	victims = []string{"killed", "offline", "silent"}
	inHand  = map[string]int{"killed": victimSlots, "offline": 1, "silent": 1}
)

func victimQueues() []string {
	return queueNames(func(i int) string { return "agent." + append(victims, rescuer)[i] }, len(victims)+1)
}

// detection lets agents with work leave, and measures how soon it is done by another. Each has a task type of its own
// that only the rescuer can do beside it, and for which it is preferred as long as it is there. Every task must have
// exactly one result in the end.
func detection(r *rig) {
	file, routes := "agents:\n", "task_routing:\n"
	for _, v := range append(victims, rescuer) {
		can, slots := v, victimSlots
		if v == rescuer {
			can, slots = strings.Join(victims, ", "), 500
		}
		file += fmt.Sprintf("  %s: {capabilities: [%s], max_concurrent_tasks: %d, health_check_interval: 1%s}\n",
			v, can, slots, patient)
		routes += fmt.Sprintf("  for-%s: {required_capabilities: [%s], preferred_agents: [%s]}\n", v, v, v)
	}
	routes = routes[:strings.Index(routes, "  for-"+rescuer)]
	settings := fmt.Sprintf("global_settings: {stale_agent_threshold_seconds: %.0f}\n", stale.Seconds())
	r.service = r.launch("taskbus", file+routes+settings, "ready")
	r.with(func(ctx context.Context, r *rig, ready func()) {
		ready()
		check(agent.Run(ctx, agent.Config{ID: rescuer, URL: r.url, Slots: 500, Interval: time.Second},
			func(context.Context, *agent.Task) (agent.Result, error) { return agent.Result{}, nil }))
	})
	processes, left, e := make(map[string]*process), make(map[string]time.Time), newEar(len(victims)*victimSlots)
	for _, v := range victims {
		processes[v] = r.role(fmt.Sprintf("victim %s %d", v, inHand[v]))
	}
	r.online(len(victims) + 1)
	e.class = func(n int) string { return victims[n/victimSlots] }
	e.due = func(n int) time.Time { return left[e.class(n)] }
	r.listen(e, bus.StreamResult, "next")
	queue := must(r.channel.QueueDeclare("", false, true, true, false, nil)).Name
	check(r.channel.QueueBind(queue, schemas.AgentOffline+".killed", bus.ExchangeEvents, false, nil))
	events := must(r.channel.Consume(queue, "", true, true, false, false, nil))
	for i, v := range victims {
		r.fill(i*victimSlots, victimSlots, func(n int) (string, amqp.Publishing) { return taskOf(n, "for-"+v) })
	}
	r.awaitStatus("dispatches", len(victims)*victimSlots, dispatched)
	// The service looks for consumers once a second, and misses only what it has seen.
	time.Sleep(1500 * time.Millisecond)

	leaves := func(v string, at time.Time) {
		e.mu.Lock()
		defer e.mu.Unlock()
		left[v] = at
	}
	redone := func(v string) {
		var slowest time.Duration
		n := victimSlots - inHand[v]%victimSlots // what was ready in the queue, or all that a kill gives back
		r.await(r.service.process, "tasks of "+v, n, 5*time.Millisecond, func() int {
			e.mu.Lock()
			defer e.mu.Unlock()
			for _, took := range e.took[v] {
				slowest = max(slowest, took)
			}
			return len(e.took[v])
		})
		r.ReportMetric(float64(slowest)/1e6, v+"-ms")
	}
	leaves("killed", time.Now())
	check(processes["killed"].kill())
	select {
	case <-events:
		r.ReportMetric(float64(time.Since(left["killed"]).Milliseconds()), "noticed-ms")
	case <-time.After(grace):
		panic(errors.New("no event tells of the agent that was killed"))
	}
	redone("killed")
	leaves("offline", time.Now())
	must(fmt.Fprintln(processes["offline"].stdin, "offline"))
	redone("offline")
	check(processes["silent"].freeze())
	time.Sleep(250 * time.Millisecond) // until the last heartbeat has arrived
	for _, a := range r.status(r.service).Agents {
		if a.ID == "silent" {
			leaves("silent", a.LastHeartbeat.Add(stale))
		}
	}
	redone("silent")
	// What they have in hand is done by the rescuer when they end.
	check(errors.Join(processes["silent"].stop(), processes["offline"].stop()))
	r.await(r.service.process, "every result", len(e.seen), 20*time.Millisecond, e.count)
	time.Sleep(250 * time.Millisecond) // for results that come again
	check(r.stop(), "stop")
	check(e.complete())
}

// standby measures what a second coordinator costs, how warm it is, and how soon it leads when the first is killed, at
// 1000 tasks a second with results.
func standby(r *rig) {
	const rate = 1000
	r.start()
	leader, next := r.service, r.launch("standby", r.scenario.fleet, "standby")
	r.others = append(r.others, next.process)
	e, begin := newEar(10*60*rate), time.Now()
	r.listen(e, bus.StreamResult, "next")
	enough, published, sent := make(chan struct{}), make(chan error, 1), 0
	due := func(i int) time.Time { return begin.Add(time.Duration(i) * time.Second / rate) }
	go func() {
		var err error
		sent, err = r.publish(enough, 0, len(e.seen), due, task)
		published <- err
	}()
	records := func(s *service) int { return int(r.status(s).Journal.Records) }
	behind := func() int {
		folded := records(next) // first: rather too many behind than too few
		return records(leader) - folded
	}
	upToDate := func() int { return one(behind() < rate) }
	r.await(next.process, "the standby is up to date", 1, 100*time.Millisecond, upToDate)
	time.Sleep(time.Second)
	first, begun := records(leader), time.Now()
	shares := percent(shorter(8*time.Second), next, leader)
	r.ReportMetric(shares[0], "standby-%")
	r.ReportMetric(shares[1], "leader-%")
	r.ReportMetric(float64(records(leader)-first)/time.Since(begun).Seconds(), "records/s")
	var samples []float64
	for range 20 {
		time.Sleep(100 * time.Millisecond)
		samples = append(samples, float64(behind()))
	}
	r.ReportMetric(median(samples), "behind-records")
	e.mu.Lock()
	e.pause = 0
	e.mu.Unlock()
	killed := time.Now()
	check(leader.kill(), "kill the leader")
	r.service, r.others = next, nil
	r.await(next.process, "the standby leads", 1, 5*time.Millisecond, func() int {
		code, err := r.get(next, "/readyz", &struct{}{})
		return one(err == nil && code == 200)
	})
	r.ReportMetric(float64(time.Since(killed).Milliseconds()), "takeover-ms")
	time.Sleep(1500 * time.Millisecond)
	close(enough)
	check(<-published, "publish")
	for end := time.Now().Add(10 * time.Second); e.count() < sent && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(250 * time.Millisecond) // for results that come again
	e.mu.Lock()
	defer e.mu.Unlock()
	for unit, value := range map[string]int{
		"pause-ms": int(e.pause.Milliseconds()), "tasks": sent, "lost": sent - e.arrived, "twice": e.twice,
	} {
		r.ReportMetric(float64(value), unit)
	}
	if sent != e.arrived || e.strange > 0 {
		panic(fmt.Errorf("of %d tasks %d were lost, %d results are of none", sent, sent-e.arrived, e.strange))
	}
}

// longJournal has the service do very many tasks, and starts it again: with the newest snapshot, and as if there were
// none. The start has to know the past: tasks of long ago, sent once more, are dropped as second copies.
func longJournal(r *rig) {
	const probes = 20
	n := 25 * *tasks
	r.scenario.fleet += fmt.Sprintf("dedupe: {window_seconds: %d, max_ids: %d}\n", 7*24*60*60, n)
	r.start()
	for done := 0; done < n; done += *tasks {
		r.fill(done, *tasks, task)
		r.awaitStatus("results", done+*tasks/2, succeeded)
	}
	r.awaitStatus("results", n, succeeded)
	time.Sleep(time.Second) // for the journal's last records
	records := r.status(r.service).Journal.Records
	check(r.service.kill())
	for turn := range 4 {
		name := "snapshot"
		if turn == 3 {
			name = "whole"
			r.disownSnapshot(records)
		}
		r.service = r.launch("taskbus", r.scenario.fleet, "ready")
		took := time.Since(r.service.begun)
		_, peak, err := r.service.memory()
		check(err)
		fmt.Printf("%s 1 %d ready-ms %.0f peak-MiB %d records\n",
			strings.Replace(r.Name(), "/journal", "/"+name, 1), took.Milliseconds(), peak, records)
		// Not the very oldest: at the bound of the window they go first. Others in each turn.
		r.fill(0, probes, func(i int) (string, amqp.Publishing) { return task(i*n/probes + n/(2*probes) + turn) })
		r.awaitStatus("second copies", probes, func(st status) int { return int(st.Counters.Duplicates) })
		check(r.service.stop())
	}
	r.service = nil
	check(r.stop())
	r.clean() // some 300 MiB
}

// disownSnapshot makes the journal end with the claim of a leader that knows of no snapshot: what starts then folds
// everything from record 1 on.
func (r *rig) disownSnapshot(records uint64) {
	const epoch = 1000 // above those of the starts before
	p := message(bus.StreamJournal, journal.AppendEpoch(nil,
		journal.Header{Epoch: epoch, First: records + 1, At: time.Now(), ResultOffset: -1, SnapshotOffset: -1},
		journal.Epoch{Nonce: "no-snapshot", Instance: "taskbus@bench#2", Version: "bench"}))
	p.ContentType, p.AppId = "application/octet-stream", "taskbus"
	r.fill(0, 1, func(int) (string, amqp.Publishing) { return bus.StreamJournal, p })
}

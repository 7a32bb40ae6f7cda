package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
)

// What a load alone does not show: memory, a large fleet at rest, and what follows when a process ends.

// shorter is a time of the measures here, in a quick look a fifth of it.
func shorter(d time.Duration) time.Duration {
	if *quick {
		return d / 5
	}
	return d
}

// resident fills every slot of the fleet with dispatches that do not end.
func resident(r *rig) {
	const n = fleetSize * sdkSlots
	r.start()
	r.report.Store(&report{available: sdkSlots})
	r.fill(0, n, task)
	r.awaitWaiting(n, r.queues()...)
	r.report.Store(&report{active: sdkSlots, perSecond: 1000})
	var most float64
	for range 20 {
		time.Sleep(100 * time.Millisecond)
		now, _ := r.service.memory()
		most = max(most, now)
	}
	r.ReportMetric(most, "resident-MiB")
	check(r.stop(), "stop")
	e := newEar(n)
	r.consume(e, append(r.queues(), bus.QueueAssign)...)
	r.await(nil, "every task", n, 20*time.Millisecond, e.count)
	check(e.complete())
}

// looks measures the CPU of the service with a thousand agents that are idle, and with a task in each agent's hands:
// heartbeats at the default interval, and knowing at once of an agent that is killed.
func looks(r *rig) {
	const crowd, interval = 1000, 30 * time.Second
	id := func(i int) string { return fmt.Sprintf("look-%03d", i%crowd) }
	all := queueNames(func(i int) string { return "agent." + id(i) }, crowd)
	file := "agents:\n"
	for i := range crowd {
		file += fmt.Sprintf("  %s: {capabilities: [look], max_concurrent_tasks: 1%s}\n", id(i), patient)
	}
	defer r.remove(all)
	r.service = r.launch("taskbus", file+"task_routing:\n  look: {required_capabilities: [look]}\n")
	r.ready(r.service)
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
			beat(channel, id(i), report{active: a, available: 1 - a})
			if i >= crowd { // all of them once, at once
				ready()
				<-ticker
			}
		}
	})
	r.online(crowd)
	for _, unit := range []string{"idle-%", "busy-%"} {
		time.Sleep(shorter(10 * time.Second))
		cpu, begun := r.service.cpu(), time.Now()
		time.Sleep(shorter(time.Minute))
		r.ReportMetric(100*float64(r.service.cpu()-cpu)/float64(time.Since(begun)), unit)
		if unit == "idle-%" {
			r.fill(0, crowd, ofType("look"))
			r.awaitStatus("dispatches", crowd, dispatched)
		}
	}
	check(r.stop())
}

// standby measures how soon a second coordinator leads when the first is killed, at 1000 tasks a second with results.
// A task may arrive twice then.
func standby(r *rig) {
	const rate = 1000
	r.start()
	r.next = r.launch("standby", r.scenario.fleet)
	e, begin := newEar(10*60*rate), time.Now()
	r.listen(e, bus.StreamResult, "next")
	enough, published, sent := make(chan struct{}), make(chan error, 1), 0
	due := func(i int) time.Time { return begin.Add(time.Duration(i) * time.Second / rate) }
	go func() {
		var err error
		sent, err = r.publish(enough, 0, len(e.seen), due, task)
		published <- err
	}()
	time.Sleep(shorter(8 * time.Second))
	killed := time.Now()
	check(r.service.kill(), "kill the leader")
	r.service, r.next = r.next, nil
	r.ready(r.service)
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
	for unit, value := range map[string]int{"tasks": sent, "lost": sent - e.arrived, "twice": e.twice} {
		r.ReportMetric(float64(value), unit)
	}
	if sent != e.arrived || e.strange > 0 {
		panic(fmt.Errorf("of %d tasks %d were lost, %d results are of none", sent, sent-e.arrived, e.strange))
	}
}

// longJournal has the service do very many tasks, and starts it again. The start has to know the past: tasks of long
// ago, sent once more, are dropped as second copies.
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
	check(r.service.kill())
	for turn := range 3 {
		r.service = r.launch("taskbus", r.scenario.fleet)
		r.ready(r.service)
		_, peak := r.service.memory()
		fmt.Printf("%s 1 %d ready-ms %.0f peak-MiB\n", strings.Replace(r.Name(), "/journal", "/snapshot", 1),
			time.Since(r.service.begun).Milliseconds(), peak)
		// Not the very oldest: at the bound of the window they go first. Others in each turn.
		r.fill(0, probes, func(i int) (string, amqp.Publishing) { return task(i*n/probes + n/(2*probes) + turn) })
		r.awaitStatus("second copies", probes, func(st status) int { return int(st.Counters.Duplicates) })
		check(r.service.stop())
	}
	r.service = nil
	check(r.stop())
	r.clean() // some 300 MiB
}

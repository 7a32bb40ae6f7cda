package main

import (
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
)

// What a load alone does not show: memory, and the start with a long journal.

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

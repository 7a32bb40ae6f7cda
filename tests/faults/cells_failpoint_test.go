package faults

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/failpoint"
	"taskbus/coordinator/view"
	"taskbus/messages"
)

// Crashes at the points that a program built with -tags failpoint has, each with every
// kind of message that passes it.

// passing is a kind of message, and how a coordinator is brought to handle many of it
// and nothing else.
type passing struct {
	name string
	// hit is the one that counts; of the journal's points, where a batch holds many.
	hit, batch int
	config     string // its agents.yaml; empty: quartet
	// play prepares, starts the coordinator that is to die, and keeps it busy.
	play func(r *rig, launch func() *process) *process
	// not are the points that it does not pass.
	not []failpoint.Point
}

var passings = []passing{
	{name: "task", hit: 25, batch: 5, config: fleet(4, 20), play: func(r *rig, launch func() *process) *process {
		r.serve().stop() // the queues are there, and agents are heard
		r.work(4, 20, slow)
		r.produce("t", "build", 80, 2_000)
		return launch()
	}},
	{name: "retry", hit: 10, batch: 1, config: fleet(4, 20), play: func(r *rig, launch func() *process) *process {
		// Dispatches that no agent takes yet; their agents then give back every one, while
		// no coordinator leads: all that the next coordinator gets are returns.
		first := r.serve()
		for i := range 4 {
			r.pretend(fmt.Sprint("a", i+1), 20)
		}
		r.submit(many("t", "build", 60)...)
		first.awaitStatus("all are dispatched", func(s view.Status) bool { return s.Counters.Dispatched == 60 })
		first.stop()
		r.work(4, 20, agentOptions{refuse: func(m *messages.TaskDispatch) bool { return m.Attempt == 1 }})
		r.eventually(patience, "all are given back", func() (bool, string) {
			n := r.broker.Ready(r.t, bus.QueueReassign)
			return n == 60, fmt.Sprint(n)
		})
		return launch()
	}},
	{name: "failed", hit: 10, batch: 1, not: []failpoint.Point{failpoint.AfterPublishBeforeConfirm, failpoint.AfterAck},
		play: func(r *rig, launch func() *process) *process {
			r.fates = []fate{{"f-", "no_eligible_agents"}}
			r.serve().stop()
			r.work(4, 5, usual)
			r.submit(many("f", "translate", 100)...)
			return launch()
		}},
	{name: "status", hit: 5, batch: 2, config: fleet(4, 20), not: []failpoint.Point{failpoint.AfterDeliver},
		play: func(r *rig, launch func() *process) *process {
			// Tasks wait for agents, and it is their reports that get them going.
			r.submitBefore(many("t", "build", 60)...)
			c := launch()
			r.eventually(patience, "all wait, or it has died already", func() (bool, string) {
				n := 60
				if c.running() {
					if s, ok := c.lookedAt(); ok {
						n = s.Pending.Total
					}
				}
				return n == 60 || !c.running(), fmt.Sprint(n)
			})
			r.work(4, 20, slow)
			return c
		}},
}

// crashPoints are those that messages pass.
var crashPoints = []failpoint.Point{
	failpoint.AfterDeliver, failpoint.AfterValidate, failpoint.AfterChoose,
	failpoint.AfterJournalPublish, failpoint.AfterJournalConfirm,
	failpoint.BeforePublish, failpoint.AfterPublishBeforeConfirm, failpoint.AfterConfirmBeforeAck, failpoint.AfterAck,
}

func failpointCells() []cell {
	var all []cell
	for _, p := range crashPoints {
		for _, kind := range passings {
			passes := true
			for _, n := range kind.not {
				passes = passes && n != p
			}
			if passes {
				all = append(all, crash(p, kind))
			}
		}
	}
	return append(all, wholeProcessCells...)
}

// shortCrashes are in the short form.
var shortCrashes = map[string]bool{
	"crash after_journal_confirm, task":        true,
	"crash after_journal_publish, retry":       true,
	"crash after_confirm_before_ack, failed":   true,
	"crash after_publish_before_confirm, task": true,
}

func crash(p failpoint.Point, kind passing) cell {
	name := fmt.Sprintf("crash %s, %s", p, kind.name)
	hit := kind.hit
	if p == failpoint.AfterJournalPublish || p == failpoint.AfterJournalConfirm {
		hit = kind.batch
	}
	return cell{name: name, short: shortCrashes[name], config: kind.config, holds: decidedOnce, play: func(r *rig) {
		c := kind.play(r, func() *process { return r.armed(p, hit) })
		r.dies(c, p)
		r.serve()
		r.resumes()
	}}
}

// armed starts a coordinator that is to die at the n-th hit of a point. It may die
// before it answers HTTP.
func (r *rig) armed(p failpoint.Point, hit int) *process {
	r.t.Helper()
	return r.run(start{breaks: true, env: []string{fmt.Sprintf("%s=%s:%d", failpoint.Environment, p, hit)}})
}

// dies waits until a coordinator has died at a point, and nowhere else.
func (r *rig) dies(c *process, p failpoint.Point) {
	r.t.Helper()
	r.eventually(patience+backoffCap, fmt.Sprintf("it dies at %s", p),
		func() (bool, string) { return !c.running(), c.log.Tail(5) })
	fired := 0
	if c.code == -1 && c.log.Has(fmt.Sprintf("failpoint %s: hit", p)) {
		fired = 1
	}
	r.mu.Lock()
	now := time.Now()
	r.strikes = append(r.strikes, strike{"crash at " + string(p), now.Add(-time.Second), now, fired})
	r.mu.Unlock()
	if fired == 0 {
		r.t.Errorf("it ended with exit code %d, and not at %s; its log ends with:\n%s", c.code, p, c.log.Tail(10))
	}
}

// submitBefore offers tasks when no coordinator has declared the queues yet.
func (r *rig) submitBefore(tasks ...request) {
	r.t.Helper()
	r.serve().stop()
	r.submit(tasks...)
}

// lookedAt is the status of a process that may end at any moment.
func (c *process) lookedAt() (s view.Status, ok bool) {
	if c.base == "" {
		if c.base = c.log.Field("taskbus is starting", "http"); c.base == "" {
			return s, false
		}
	}
	resp, err := httpClient.Get(c.base + "/status")
	if err != nil {
		return s, false
	}
	defer resp.Body.Close()
	return s, decode(resp.Body, &s) == nil
}

// Points that are the process's own.
var wholeProcessCells = []cell{
	{name: "crash during_takeover of a standby", short: true, holds: always, play: func(r *rig) {
		first := r.serve()
		r.work(4, 5, usual)
		p := r.produce("t", "build", 100, 1_000_000)
		second := r.armed(failpoint.DuringTakeover, 1)
		r.eventually(patience, "the second stands by", func() (bool, string) {
			return second.log.Has("standby"),
				second.log.Tail(3)
		})
		r.inFullSwing(30)
		first.kill()
		r.dies(second, failpoint.DuringTakeover)
		r.serve()
		r.resumes()
		p.finish()
	}},
	{name: "crash during_drain", holds: always, play: func(r *rig) {
		r.underLoadArmed(failpoint.DuringDrain, func(c *process) { c.signal(syscall.SIGTERM) })
	}},
	{name: "crash during_reload", holds: always, play: func(r *rig) {
		r.underLoadArmed(failpoint.DuringReload, func(*process) {
			r.configure(strings.Replace(quartet, "assignment_timeout_seconds: 60", "assignment_timeout_seconds: 59", 1))
		})
	}},
	{name: "crash during_snapshot", config: fleet(4, 200), holds: always, play: func(r *rig) {
		// A snapshot of more than one part, which follows soon after a start.
		c := r.serve()
		r.work(4, 200, agentOptions{})
		r.submit(many("an-id-that-is-long-enough-to-fill-a-snapshot-of-more-than-one-part-with-not-too-many-tasks", "build",
			6_000)...)
		r.eventually(2*time.Minute, "all are run", func() (bool, string) {
			n := r.book.executed()
			return n == 6_000, fmt.Sprint(n)
		})
		c.kill()
		r.dies(r.armed(failpoint.DuringSnapshot, 1), failpoint.DuringSnapshot)
		r.serve()
		r.resumes()
	}},
	{name: "a task that brings out a fault of the coordinator", short: true, holds: withoutFault, play: func(r *rig) {
		r.fates = []fate{{"poison", "park"}, {"0", "any"}}
		r.book.offer("0", nil) // its producer hears of it by its message_id
		c := r.launch(start{breaks: true, env: []string{failpoint.Environment + "=panic:poison"}})
		c.awaitState("active")
		r.work(4, 5, usual)
		p := r.produce("t", "build", 100, 1_000_000)
		r.inFullSwing(20)
		r.during("a panic", func() {
			r.submit(task("poison", "build"))
			r.inFullSwing(50) // L3: no other agent is held up
			r.eventually(patience, "it is parked", func() (bool, string) {
				e := r.book.entry("poison")
				return e.parked > 0, e.String()
			})
		}, func() int { return strings.Count(c.log.String(), "failpoint panic: task poison") })
		r.oneSession(c)
		r.resumes()
		p.finish()
	}},
}

// underLoadArmed provokes a coordinator, in mid-stream, to pass a point at which it dies.
func (r *rig) underLoadArmed(p failpoint.Point, provoke func(c *process)) {
	r.t.Helper()
	c := r.launch(start{breaks: true, env: []string{failpoint.Environment + "=" + string(p)}})
	c.awaitState("active")
	r.work(4, 5, usual)
	producer := r.produce("t", "build", 100, 1_000_000)
	r.inFullSwing(30)
	provoke(c)
	r.dies(c, p)
	r.serve()
	r.resumes()
	producer.finish()
}

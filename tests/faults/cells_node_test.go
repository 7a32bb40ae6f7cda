package faults

import (
	"fmt"
	"strings"
	"time"

	"taskbus/coordinator/view"
)

// What happens to a whole node. These cells have one for all of them and run one after
// the other.

var outageCells = []cell{
	{name: "the broker stops and starts", short: true, holds: always, play: func(r *rig) {
		r.outage("stop_app, start_app", func() { r.broker.Ctl(r.t, "stop_app") }, func() { r.broker.Ctl(r.t, "start_app") })
	}},
	{name: "the node restarts", holds: always, play: func(r *rig) {
		r.outage("stop, start", func() { r.node.Stop(r.t) }, func() { r.node.Start(r.t) })
	}},
	{name: "the broker is killed", holds: always, play: func(r *rig) {
		// What RabbitMQ 3.10.8 registers of a new quorum queue reaches the disk after
		// seconds only (see brokertest.Node.Kill9).
		r.serve().stop()
		r.node.Restart(r.t)
		r.outage("SIGKILL, start", func() { r.node.Kill9(r.t) }, func() { r.node.Start(r.t) })
	}},
	{name: "the broker is killed again and again", holds: always, play: func(r *rig) {
		r.serve().stop()
		r.node.Restart(r.t)
		c := r.serve()
		r.work(4, 5, usual)
		p := r.produce("t", "build", 100, 1_000_000)
		for range 3 {
			r.inFullSwing(30)
			r.during("SIGKILL of the broker", func() {
				r.node.Kill9(r.t)
				r.node.Start(r.t)
			}, func() int { return 1 })
			c.awaitState("active")
		}
		r.resumes()
		p.finish()
	}},
	{name: "ends told again: the broker stops and starts", holds: listening, play: func(r *rig) {
		c := r.serve()
		r.listen()
		r.work(4, 20, usual)
		p := r.produce("t", "build", 80, 1_000_000)
		for range 4 {
			r.inFullSwing(60)
			r.during("stop_app, start_app", func() {
				r.broker.Ctl(r.t, "stop_app")
				r.broker.Ctl(r.t, "start_app")
			}, func() int { return 1 })
			c.awaitState("active")
		}
		r.resumes()
		p.finish()
	}},
}

// outage takes the broker away in mid-stream and gives it back.
func (r *rig) outage(name string, down, up func()) {
	r.t.Helper()
	r.underLoad(func(c *process) {
		before := c.status().Broker.Sessions
		r.during(name, func() {
			down()
			c.awaitState("connecting")
			if code, _ := c.get("/readyz"); code != 503 {
				r.t.Errorf("L5: /readyz answers %d without a broker", code)
			}
			up()
		}, func() int { return int(c.status().Broker.Sessions - before) })
	})
}

var alarmCells = []cell{
	alarm("memory alarm, 5 s", true, 5*time.Second, "memory", "set_vm_memory_high_watermark", "0.000001", "0.4"),
	alarm("memory alarm, 60 s", false, 60*time.Second, "memory", "set_vm_memory_high_watermark", "0.000001", "0.4"),
	alarm("disk alarm", false, 10*time.Second, "disk", "set_disk_free_limit", "999GB", "50MB"),
	{name: "an alarm longer than a lease", short: true, config: hasty, holds: withoutFault, play: func(r *rig) {
		c := r.serve()
		r.work(4, 20, agentOptions{work: 2 * time.Second})
		r.briefAlarm(c, "build", 60, 12*time.Second)
		c.awaitState("active")
		r.settled()
		r.oneSession(c)
		r.resumes()
	}},
	{name: "an alarm before the start", holds: always, play: func(r *rig) {
		r.serve().stop()
		r.during("memory alarm", func() {
			r.broker.Ctl(r.t, "set_vm_memory_high_watermark", "0.000001")
			defer r.broker.Ctl(r.t, "set_vm_memory_high_watermark", "0.4")
			c := r.launch(start{})
			// It must say where it stands, and not hang: it cannot publish now.
			r.eventually(patience, "L5: it is not ready and says why", func() (bool, string) {
				var ready view.Readiness
				c.read("/readyz", &ready)
				return !ready.Ready && ready.State != "", ready.State + ": " + ready.Detail
			})
			r.pause(15 * time.Second)
			if code, _ := c.get("/livez"); code != 200 {
				r.t.Errorf("/livez answers %d in an alarm", code)
			}
			if n := c.status().Broker.Sessions; n > 4 {
				r.t.Errorf("%d sessions in an alarm of 15 s: a storm", n)
			} else {
				r.say("%d sessions in an alarm of 15 s", n)
			}
		}, func() int { return 1 })
		r.work(4, 5, usual)
		r.resumes()
	}},
	{name: "SIGTERM in an alarm", config: linguist, holds: always, play: func(r *rig) {
		r.alarmed(func(c *process) {
			begun := time.Now()
			c.signal(15)
			c.wait(grace + 10*time.Second)
			if took := time.Since(begun); took > grace+2*time.Second {
				r.t.Errorf("L2: the end took %v, more than the grace of %v", took, grace)
			}
		}, "set_vm_memory_high_watermark", "0.000001", "0.4")
		r.serve()
		r.resumes()
	}},
}

// alarm holds up publishers for a while: no session is lost, nothing is sent twice.
func alarm(name string, short bool, last time.Duration, word, verb, raise, clear string) cell {
	return cell{name: name, short: short, config: linguist, holds: withoutFault, play: func(r *rig) {
		var c *process
		r.alarmed(func(blocked *process) {
			c = blocked
			s := c.status()
			if s.Health.Checks["broker"].Status != view.Degraded || !strings.Contains(s.Broker.BlockReason, word) {
				r.t.Errorf("in the alarm: broker %+v, health %+v", s.Broker, s.Health.Checks["broker"])
			}
			r.pause(last)
			r.oneSession(c)
		}, verb, raise, clear)
		c.awaitState("active")
		r.resumes()
		r.oneSession(c)
	}}
}

// hasty is a fleet whose agents have five seconds for a task.
var hasty = strings.ReplaceAll(fleet(4, 20), "accept_timeout_seconds: 600",
	"accept_timeout_seconds: 600, timeout_seconds: 5")

// briefAlarm gives agents work, and raises an alarm that outlasts what they have for it: they finish,
// and can say so only when it is over.
func (r *rig) briefAlarm(c *process, kind string, tasks int, last time.Duration) {
	r.t.Helper()
	before := r.book.executed()
	name := fmt.Sprint("brief", r.probes)
	r.probes++
	r.submit(many(name, kind, tasks)...)
	r.eventually(patience, "agents are at work", func() (bool, string) {
		n := r.book.executed() - before
		return n >= tasks, fmt.Sprint(n)
	})
	blocked := 0
	r.during("an alarm of "+last.String(), func() {
		r.broker.Ctl(r.t, "set_vm_memory_high_watermark", "0.000001")
		defer r.broker.Ctl(r.t, "set_vm_memory_high_watermark", "0.4")
		c.awaitState("blocked")
		blocked++
		r.pause(last)
	}, func() int { return blocked })
}

// linguist is the fleet of the alarms: one of its agents is never there, so that tasks
// for it fail after three seconds. No producer can publish a task in an alarm; the coordinator
// must have something to publish all the same.
var linguist = strings.NewReplacer(
	"task_routing:", "  a9: {capabilities: [french], max_concurrent_tasks: 1, health_check_interval: 1}\ntask_routing:",
	"assignment_timeout_seconds: 60", "assignment_timeout_seconds: 3",
).Replace(quartet)

// alarmed raises an alarm, in which the coordinator has something to publish.
func (r *rig) alarmed(in func(c *process), verb, raise, clear string) {
	r.t.Helper()
	r.fates = []fate{{"slow-", "no_agents_online"}}
	c := r.serve()
	r.work(4, 5, usual)
	r.submit(many("t", "build", 100)...)
	r.settled() // none of these may wait when nothing goes on
	blocked := 0
	r.during(verb, func() {
		// However long rabbitmqctl takes: some of these come in before the alarm and fail
		// in it.
		p := r.produce("slow", "translate", 20, 1_000_000)
		r.broker.Ctl(r.t, verb, raise)
		// Whatever becomes of this cell, the next one on this node must not have it.
		defer p.finish()
		defer r.broker.Ctl(r.t, verb, clear)
		c.awaitState("blocked")
		blocked = int(c.metric("taskbus_amqp_blocked"))
		in(c)
	}, func() int { return blocked })
}

package faults

import (
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/view"
	"taskbus/tests/faults/proxy"
)

// What an operator, or another program, does to the virtual host.

var brokerCells = []cell{
	{name: "connections closed by an operator", short: true, holds: always, play: func(r *rig) {
		r.underLoad(func(c *process) {
			r.during("close_all_connections", func() {
				r.broker.CloseConnections(r.t)
				c.awaitStatus("a second session", func(s view.Status) bool {
					return s.Broker.Sessions >= 2 &&
						s.Readiness.Ready
				})
			}, func() int { return strings.Count(c.log.String(), "closed by a test") })
			if n := c.status().Broker.Sessions; n > 4 {
				r.t.Errorf("%d sessions after one fault: a storm", n)
			}
		})
	}},
	{name: "task.assign deleted", holds: always, play: func(r *rig) {
		r.fates = []fate{{"t-", "any"}} // what was in the queue is gone with it: nothing else is promised
		c := r.serve()
		r.work(4, 5, usual)
		p := r.produce("t", "build", 100, 1_000_000)
		r.inFullSwing(30)
		p.finish()
		r.settled()
		r.during("delete task.assign", func() {
			r.broker.DeleteQueue(r.t, bus.QueueAssign)
			c.awaitStatus("it is declared again", func(s view.Status) bool {
				return s.Broker.Sessions >= 2 &&
					s.Readiness.Ready
			})
		}, func() int { return int(c.status().Broker.Sessions) - 1 })
		if q := r.broker.QueueInfo(r.t, bus.QueueAssign); q.Type != "quorum" {
			r.t.Errorf("task.assign was not declared again: %+v", q)
		}
		r.resumes()
	}},
	{name: "an agent's queue deleted", short: true, holds: withoutFault, play: func(r *rig) {
		c := r.serve()
		r.work(3, 5, agentOptions{work: 100 * time.Millisecond})
		p := r.produce("t", "build", 60, 1_000_000)
		r.inFullSwing(30)
		r.pretend("a4", 0)
		c.awaitStatus("a4 is there", func(s view.Status) bool { return state(s, "a4") == "online" })
		// A dispatch comes back, or a look in its turn comes first and has the queue declared.
		found := func() int {
			return int(c.metric(`taskbus_publish_outcomes_total{outcome="unroutable"}`)) +
				strings.Count(c.log.String(), `"agent_id":"a4","queue":"agent.a4"`)
		}
		r.during("delete agent.a4", func() {
			r.broker.DeleteQueue(r.t, "agent.a4")
			r.pretend("a4", 5) // it reports as if all were well
			r.eventually(patience, "the loss is found", func() (bool, string) {
				n := found()
				return n > 0, fmt.Sprint(n)
			})
		}, found)
		r.hire("a4", 5, usual) // its queue is declared again, and it works
		r.oneSession(c)
		r.resumes()
		p.finish()
	}},
	{name: "an agent's queue full", short: true, holds: withoutFault, play: func(r *rig) {
		c := r.serve()
		r.broker.SetPolicy(r.t, "full", `^agent\.a4$`, map[string]any{"max-length": 1, "overflow": "reject-publish"})
		r.work(3, 5, agentOptions{work: 100 * time.Millisecond})
		p := r.produce("t", "build", 60, 1_000_000)
		stop := r.keepPretending("a4", 200)
		r.during("a full queue", func() {
			r.eventually(patience, "a dispatch is refused", func() (bool, string) {
				n := c.metric(`taskbus_publish_outcomes_total{outcome="rejected"}`)
				return n > 0, fmt.Sprint(n)
			})
		}, func() int { return int(c.metric(`taskbus_publish_outcomes_total{outcome="rejected"}`)) })
		r.inFullSwing(20)
		stop()
		r.hire("a4", 200, usual) // takes what got in
		r.broker.DeletePolicy(r.t, "full")
		r.oneSession(c)
		r.resumes()
		p.finish()
	}},
	{name: "task.assign declared as a classic queue first", short: true, holds: always, play: func(r *rig) {
		r.broker.DeclareQueue(r.t, bus.QueueAssign, nil)
		c := r.serve()
		r.work(4, 5, usual)
		p := r.produce("t", "build", 100, 1_000_000)
		r.inFullSwing(30)
		r.during("a queue of another kind", func() {}, func() int { return len(c.status().Broker.Findings) })
		r.oneSession(c)
		r.resumes()
		p.finish()
	}},
	{name: "permissions revoked", holds: always, play: func(r *rig) {
		user := "revoked-" + r.broker.VHost
		mine := r.broker.AddUser(r.t, user)
		r.secret(passwordOf(mine.URL))
		r.broker.SetPermissions(r.t, user, ".*", ".*", ".*")
		c := r.launch(start{url: mine.URL})
		c.awaitState("active")
		r.work(4, 5, usual)
		p := r.produce("t", "build", 100, 1_000_000)
		r.inFullSwing(30)
		before := c.status().Broker.Sessions
		r.during("permissions revoked", func() {
			r.broker.SetPermissions(r.t, user, "", "", "")
			r.broker.CloseConnections(r.t) // the broker keeps permissions for each channel
			r.refusedWith(c, "403")
			r.pause(3 * time.Second)
		}, func() int { return int(c.status().Broker.Sessions - before) })
		// The bounds of its pauses are 0.25, 0.5, 1 and 2 s: in 3 s it may draw small
		// ones, but not for ever.
		if n := c.status().Broker.Sessions - before; n > 20 {
			r.t.Errorf("%d tries within seconds: a hot loop", n)
		}
		r.broker.SetPermissions(r.t, user, ".*", ".*", ".*")
		r.resumes()
		p.finish()
	}},
	{name: "a wrong password", short: true, holds: always, play: func(r *rig) {
		const wrong = "wr0ng-canary"
		r.secret(wrong)
		c := r.launch(start{url: r.broker.As(r.t, "nobody", wrong).URL})
		r.during("refused", func() { r.refusedWith(c, "refused access") },
			func() int { return int(c.status().Broker.Sessions) })
		c.stop()
		r.goesOn()
	}},
	{name: "a virtual host that does not exist", holds: always, play: func(r *rig) {
		c := r.launch(start{url: r.broker.In(r.t, "nowhere").URL})
		r.during("refused", func() { r.refusedWith(c, "nowhere") }, func() int { return int(c.status().Broker.Sessions) })
		c.stop()
		r.goesOn()
	}},
	{name: "a user without connections left", holds: always, play: func(r *rig) {
		user := "limited-" + r.broker.VHost
		mine := r.broker.AddUser(r.t, user)
		r.secret(passwordOf(mine.URL))
		r.broker.SetPermissions(r.t, user, ".*", ".*", ".*")
		r.broker.Ctl(r.t, "set_user_limits", user, `{"max-connections": 1}`) // it wants two
		c := r.launch(start{url: mine.URL})
		r.during("refused", func() { r.refusedWith(c, "limit") }, func() int { return int(c.status().Broker.Sessions) })
		r.broker.Ctl(r.t, "clear_user_limits", user, "max-connections")
		r.work(4, 5, usual)
		r.resumes()
	}},
	{name: "an exchange deleted", holds: always, play: func(r *rig) {
		r.underLoad(func(c *process) {
			r.during("delete taskbus.events", func() {
				r.broker.DeleteExchange(r.t, bus.ExchangeEvents)
				c.awaitStatus("it is declared again", func(s view.Status) bool {
					return s.Broker.Sessions >= 2 &&
						s.Readiness.Ready
				})
			}, func() int { return int(c.status().Broker.Sessions) - 1 })
		})
	}},
	streamDeleted(bus.StreamStatus),
	streamDeleted(bus.StreamResult),
	streamDeleted(bus.StreamJournal),
	{name: "the leader cut off, a standby behind it", holds: always, play: func(r *rig) {
		first := r.serve()
		r.work(4, 5, usual)
		p := r.produce("t", "build", 100, 1_000_000)
		second := r.launch(start{})
		second.awaitState("standby")
		r.inFullSwing(20)
		r.during("the leader's connections reset", func() {
			first.proxy.Refuse(true)
			first.proxy.Reset()
			second.awaitState("active")
			first.proxy.Refuse(false)
			first.awaitState("standby")
		}, func() int { return first.proxy.Fired(proxy.ResetPeer) })
		r.resumes()
		p.finish()
	}},
}

// streamDeleted takes a stream away under the leader. What was in it is gone, and no
// task with it.
func streamDeleted(stream string) cell {
	return cell{name: stream + " deleted", holds: always, play: func(r *rig) {
		r.underLoad(func(c *process) {
			r.during("delete "+stream, func() {
				r.broker.DeleteQueue(r.t, stream)
				r.eventually(patience+backoffCap, "it is declared again, and work goes on", func() (bool, string) {
					s := c.status()
					return s.Broker.Sessions >= 2 && s.Readiness.Ready, fmt.Sprintf("%d sessions, %+v", s.Broker.Sessions, s.Readiness)
				})
			}, func() int { return int(c.status().Broker.Sessions) - 1 })
			if q := r.broker.QueueInfo(r.t, stream); q.Type != "stream" {
				r.t.Errorf("%s was not declared again: %+v", stream, q)
			}
		})
	}}
}

// refusedWith waits until /health says why there is no session (L5), and that the
// process lives and does not take tasks.
func (r *rig) refusedWith(c *process, why string) {
	r.t.Helper()
	r.eventually(patience, "/health says "+why, func() (bool, string) {
		detail := c.health().Checks["broker"].Detail
		return strings.Contains(detail, why), detail
	})
	if code, _ := c.get("/readyz"); code != 503 {
		r.t.Errorf("L5: /readyz answers %d without a broker, want 503", code)
	}
	if code, _ := c.get("/livez"); code != 200 {
		r.t.Errorf("/livez answers %d: the process lives whatever the broker does", code)
	}
}

// goesOn lets an ordinary coordinator do the work, for cells whose own never could.
func (r *rig) goesOn() {
	r.t.Helper()
	r.serve()
	r.work(4, 5, usual)
	r.resumes()
}

// settled waits until every task so far has its end and is acknowledged.
func (r *rig) settled() {
	r.t.Helper()
	r.eventually(patience, "every task has its end", func() (bool, string) {
		open, _ := r.book.open()
		return len(open) == 0, fmt.Sprint(len(open), " have none")
	})
	for _, c := range r.processes {
		if c.running() {
			c.awaitStatus("nothing is held", func(s view.Status) bool { return s.Counters.Held == 0 })
		}
	}
}

// pretend reports for an agent that does not run.
func (r *rig) pretend(id string, slots int) {
	r.t.Helper()
	a := &agent{r: r, id: id, slots: slots}
	conn := r.broker.Dial(r.t)
	defer conn.CloseDeadline(time.Now().Add(5 * time.Second))
	if ok := publish(conn, bus.StreamStatus, a.heartbeat("ready")); !ok[0] {
		r.t.Fatal("a report was not confirmed")
	}
}

// keepPretending reports for an agent that does not run until stop is called.
func (r *rig) keepPretending(id string, slots int) (stop func()) {
	r.t.Helper()
	conn, err := amqp.Dial(r.broker.URL)
	if err != nil {
		r.t.Fatal("connect as an agent")
	}
	a := &agent{r: r, id: id, slots: slots}
	done, ended := make(chan struct{}), make(chan struct{})
	r.helpers.Go(func() {
		defer close(ended)
		defer conn.CloseDeadline(time.Now().Add(5 * time.Second))
		for {
			publish(conn, bus.StreamStatus, a.heartbeat("ready"))
			select {
			case <-done:
				return
			case <-r.stopping.Done():
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	})
	return func() { close(done); <-ended }
}

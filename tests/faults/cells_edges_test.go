package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/failpoint"
	"taskbus/coordinator/view"
	"taskbus/messages"
	"taskbus/tests/faults/proxy"
)

// Faults of which each was found to lose or double something once: agents that die idle or with
// neighbours in hand, records that are too large, clocks that are ahead, lanes that are dropped
// while they are fed, ends that are told again. (Alarms longer than a lease are a node's.)

var edgeCells = []cell{
	{name: "idle agents die", short: true, holds: always, play: func(r *rig) {
		c := r.serve()
		r.work(4, 5, usual)
		r.submit(many("t", "build", 40)...)
		r.settled()
		r.idleDeath(c, "a1", "build")
		r.hire("a1", 5, usual)
		r.resumes()
		r.settled()
		r.during("an idle agent dies while nobody leads", func() {
			c.kill()
			r.agents["a2"].fire()
			c = r.serve()
			r.doneElsewhere("killed", "a2", "build", 15*time.Second)
		}, func() int { return 1 })
		r.hire("a2", 5, usual)
		r.resumes()
	}},
	{name: "a task that kills its agents, with neighbours in hand", short: true, config: fleet(3, 4), holds: always,
		play: func(r *rig) {
			r.fates = []fate{{"poison", "poisoned"}}
			r.serve()
			deaths := r.poisonable(3, 4, agentOptions{work: 300 * time.Millisecond})
			r.during("agents die of a task", func() {
				r.submit(slices.Concat(many("t", "build", 6), []request{task("poison", "build")}, many("u", "build", 6))...)
				r.eventually(2*time.Minute, "the guilty task is parked", func() (bool, string) {
					e := r.book.entry("poison")
					return len(e.failures) > 0, e.String()
				})
			}, deaths)
			r.resumes()
		}},
	{name: "a record larger than a message may be", config: quartet + "journal: {record_inputs: true}\n",
		holds: decidedOnce, play: func(r *rig) {
			c := r.serve()
			r.work(4, 5, usual)
			p := r.produce("t", "build", 60, 1_000_000)
			r.inFullSwing(20)
			r.during("quotas.yaml of 10 MB", func() {
				r.largeQuotas(c)
				r.inFullSwing(100)
				r.oneSession(c)
			}, func() int { return 1 })
			c.kill() // the next one reads it
			r.serve()
			r.resumes()
			p.finish()
		}},
	{name: "leaders whose clocks are ahead, and right ones", short: true, holds: always, play: func(r *rig) {
		r.work(4, 5, usual)
		var p *producer
		for _, ahead := range []string{"0s", "8m", "0s", "2h", "0s"} {
			c := r.ahead(ahead)
			if ahead == "2h" { // more than the broker's clock allows: it does not lead
				r.eventually(patience, "it says why it does not lead", func() (bool, string) {
					var ready view.Readiness
					c.read("/readyz", &ready)
					return strings.Contains(ready.Detail, "this machine's clock is ahead of the broker's by about"), ready.Detail
				})
				c.kill()
				continue
			}
			c.awaitState("active")
			if p == nil {
				p = r.produce("t", "build", 60, 1_000_000)
			}
			r.inFullSwing(40)
			c.kill()
		}
		r.serve()
		r.resumes()
		p.finish()
	}},
	{name: "a lane dropped while it is fed", config: fleet(2, 2, "window: 8", "lanes: []"), holds: withoutFault,
		play: func(r *rig) {
			c := r.serve()
			r.work(2, 2, agentOptions{work: 100 * time.Millisecond})
			// Of the lane of each group but the first: one of the first is kept for good.
			ofGroups := func(name string) []request {
				tasks := many(name, "build", 90)
				for i := range tasks {
					tasks[i].Group = fmt.Sprint("g", i/30)
				}
				return tasks
			}
			for round := range 2 {
				dropped := c.proxy.Add(proxy.Rule{
					Name: "a lane is dropped, slowly", From: proxy.Client, Action: proxy.Delay, For: 3 * time.Second,
					Times: proxy.Always,
					Match: func(f *proxy.Frame) bool { return f.Method == proxy.QueueDelete },
				})
				r.submit(ofGroups(fmt.Sprint("t", round))...)
				r.settled()
				r.during("a lane is dropped while it is fed", func() {
					select {
					case <-dropped.Acted():
					case <-time.After(90 * time.Second): // it fails for not having fired
					}
					before := c.status().Counters.Moved
					r.submit(ofGroups(fmt.Sprint("u", round))...)
					c.awaitStatus("tasks are moved meanwhile", func(s view.Status) bool { return s.Counters.Moved > before })
				}, dropped.Fired)
				c.proxy.Heal()
				r.settled()
			}
			r.oneSession(c)
			r.resumes()
		}},
	toldAgain("SIGKILL when ends are published", true, proxy.Client,
		proxy.PublishTo(bus.ExchangeEvents, "task.completed."), proxy.Cut),
	toldAgain("SIGKILL when results have come", false, proxy.Server, proxy.DeliverFrom(bus.StreamResult), proxy.Pass),
}

// toldAgain kills the leader when the n-th such frame passes, three times: every end is told, by
// the next leader if need be, and each time with what the task was accepted with.
func toldAgain(name string, short bool, from proxy.Side, match func(*proxy.Frame) bool, do proxy.Action) cell {
	return cell{name: "ends told again: " + name, short: short, config: fleet(4, 20),
		holds: append([]invariant{endsAreTold, endsAreWhole, answersAreGiven}, decidedOnce...), play: func(r *rig) {
			c := r.serve()
			r.listen()
			r.work(4, 20, usual)
			p := r.produce("t", "build", 80, 1_000_000)
			for i := range 3 {
				struck := c.proxy.Add(proxy.Rule{Name: name, From: from, Match: match, After: 20 * (i + 1), Action: do,
					Hook: func() {
						_ = c.cmd.Process.Kill() // it runs: it has just been talking
						<-c.exited
					}})
				r.eventually(patience, "the coordinator is killed", func() (bool, string) { return !c.running(), struck.String() })
				r.proven(name, struck.Fired())
				c = r.serve()
			}
			r.resumes()
			p.finish()
		}}
}

// ahead starts a coordinator whose clock is so far ahead.
func (r *rig) ahead(by string) *process {
	r.t.Helper()
	return r.launch(start{breaks: true, env: []string{failpoint.Environment + "=clock:" + by}})
}

// idleDeath has an agent die that has nothing to do: it is missed within five seconds, and what is
// offered from then on goes to others.
func (r *rig) idleDeath(c *process, id, kind string) {
	r.t.Helper()
	r.missed(c, id)
	r.doneElsewhere("idle", id, kind, 10*time.Second)
}

// missed has an agent die that has nothing to do.
func (r *rig) missed(c *process, id string) {
	r.t.Helper()
	c.awaitStatus(id+" is there", func(s view.Status) bool { return state(s, id) == "online" })
	r.pause(2 * time.Second) // its queue is looked at when it comes, which the coordinator does twice a second
	r.during("an idle agent dies", func() {
		died := time.Now()
		r.agents[id].fire()
		c.awaitStatus(id+" is missed", func(s view.Status) bool { return state(s, id) != "online" })
		if took := time.Since(died); took > 8*time.Second { // five, and what other cells take
			r.t.Errorf("%s was missed after %v, want 5 s", id, took)
		}
	}, func() int { return 1 })
}

// doneElsewhere offers tasks, which are done in time by other agents than one that is dead.
func (r *rig) doneElsewhere(name, dead, kind string, within time.Duration) {
	r.t.Helper()
	name = fmt.Sprint(name, "-", r.probes)
	r.probes++
	tasks := many(name, kind, 20)
	r.submit(tasks...)
	r.eventually(3*within, "what is offered beside a dead agent is done", func() (bool, string) {
		for _, q := range tasks {
			if e := r.book.entry(q.TaskID); len(e.executions()) == 0 {
				return false, e.String()
			}
		}
		return true, ""
	})
	for _, q := range tasks {
		e := r.book.entry(q.TaskID)
		if took := e.ended.Sub(e.offered); took > within {
			r.t.Errorf("done %v after it was offered, want at most %v: %s", took, within, &e)
		}
		if e.runs[0].agent == dead {
			r.t.Errorf("it was given to %s, which is dead: %s", dead, &e)
		}
	}
}

// poisonable starts agents whose process ends when it gets a task whose id begins with "poison", and
// comes back a moment later. deaths is how often one has.
func (r *rig) poisonable(n, slots int, o agentOptions) (deaths func() int) {
	r.t.Helper()
	deaths = func() int { return r.book.runsOf("poison") }
	o.dies = func(m *messages.TaskDispatch) bool {
		poison := strings.HasPrefix(string(m.TaskID), "poison")
		if poison {
			r.struck("an agent dies of " + string(m.TaskID))
		}
		return poison
	}
	r.work(n, slots, o)
	return deaths
}

// largeQuotas puts a quotas.yaml beside agents.yaml whose text is larger than a message may be, and
// waits until it is in force.
func (r *rig) largeQuotas(c *process) {
	r.t.Helper()
	before := c.status().Config.Version
	text := "pool: {limits: {requests: {amount: 1000000000, per: day}}}\n" +
		strings.Repeat("# "+strings.Repeat("x", 997)+"\n", 10_000)
	if err := os.WriteFile(filepath.Join(r.dir, "quotas.yaml"), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	c.signal(syscall.SIGHUP)
	c.awaitStatus("the quotas are in force", func(s view.Status) bool {
		return s.Config.Version != before &&
			s.Config.LastReloadOK
	})
}

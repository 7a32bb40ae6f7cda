package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"taskbus/coordinator/view"
	"taskbus/tests/faults/proxy"
)

// What a network does to the coordinator's connections.

var networkCells = []cell{
	{name: "RST", short: true, holds: always, play: func(r *rig) {
		r.underLoad(func(c *process) { r.cut(c, "RST", c.proxy.Reset) })
	}},
	{name: "FIN", holds: always, play: func(r *rig) {
		r.underLoad(func(c *process) { r.cut(c, "FIN", c.proxy.Finish) })
	}},
	{name: "RST again and again", holds: always, play: func(r *rig) {
		r.underLoad(func(c *process) {
			for range 6 {
				r.during("RST", func() { c.proxy.Reset() }, func() int { return c.proxy.Fired(proxy.ResetPeer) })
				r.pause(time.Duration(r.chance.Int64N(int64(time.Second))))
			}
		})
	}},
	{name: "no new connections for 5 s", holds: always, play: func(r *rig) {
		r.underLoad(func(c *process) {
			c.proxy.Refuse(true)
			r.cut(c, "RST", c.proxy.Reset)
			r.during("refused", func() { r.pause(5 * time.Second) }, func() int { return c.proxy.Fired(proxy.Refuse) })
			c.proxy.Refuse(false)
		})
	}},

	// Nothing passes, nothing is told. The client reads for 15 s in vain, or writes for 20.
	silence("half-open", proxy.Toxic{Timeout: true}, proxy.Toxic{Timeout: true}, proxy.Timeout, 25*time.Second),
	silence("blackhole", proxy.Toxic{Blackhole: true}, proxy.Toxic{Blackhole: true}, proxy.Blackhole, 25*time.Second),
	silence("one-way, from the broker", proxy.Toxic{}, proxy.Toxic{Blackhole: true}, proxy.Blackhole, 25*time.Second),
	{name: "blackhole with full socket buffers", holds: always, play: fullBuffers},

	{name: "a blackhole of 3 s", short: true, holds: withoutFault, play: func(r *rig) {
		r.underLoad(func(c *process) {
			r.during("a blackhole of 3 s", func() {
				c.proxy.Both(proxy.Toxic{Blackhole: true})
				r.pause(3 * time.Second)
				c.proxy.Heal()
			}, func() int { return c.proxy.Fired(proxy.Blackhole) })
			r.oneSession(c)
		})
	}},

	// Slow, but alive: no session is given up and nothing is sent twice.
	slowness("latency 500 ms ± 200 ms", false,
		proxy.Toxic{Latency: 500 * time.Millisecond, Jitter: 200 * time.Millisecond}, proxy.Latency, 10*time.Second, 100),
	{name: "64 kbit/s", holds: always, play: func(r *rig) {
		r.underLoad(func(c *process) {
			r.during("64 kbit/s", func() {
				c.proxy.Both(proxy.Toxic{BytesPerSecond: 8_000})
				r.pause(25 * time.Second)
				c.proxy.Heal()
			}, func() int { return c.proxy.Fired(proxy.Bandwidth) })
			// An answer may take longer than the client waits, behind megabytes of tasks
			// in the sockets' buffers: another session is no fault, a storm of them is.
			if n := c.status().Broker.Sessions; n > 3 {
				r.t.Errorf("%d sessions in 25 s", n)
			}
		})
	}},
	slowness("slices of 1 byte", false, proxy.Toxic{Slice: 1}, proxy.Slicer, 5*time.Second, 40),
	slowness("latency 100 ms", true, proxy.Toxic{Latency: 100 * time.Millisecond, Jitter: 50 * time.Millisecond},
		proxy.Latency, 3*time.Second, 100),
	slowness("slices of 1 byte, shortly", true, proxy.Toxic{Slice: 1}, proxy.Slicer, 2*time.Second, 20),

	{name: "limit_data in mid-frame", short: true, holds: always, play: func(r *rig) {
		r.underLoad(func(c *process) {
			r.during("limit_data", func() {
				c.proxy.Both(proxy.Toxic{LimitData: 20_011})
				c.awaitStatus("a second session", func(s view.Status) bool { return s.Broker.Sessions >= 2 })
				c.proxy.Heal()
			}, func() int { return c.proxy.Fired(proxy.LimitData) })
		})
	}},
	{name: "slow_close", holds: always, play: func(r *rig) {
		r.underLoad(func(c *process) {
			r.during("slow_close", func() {
				c.proxy.Both(proxy.Toxic{SlowClose: 3 * time.Second})
				r.broker.CloseConnections(r.t)
				c.awaitStatus("a second session", func(s view.Status) bool { return s.Broker.Sessions >= 2 })
				c.proxy.Heal()
			}, func() int { return c.proxy.Fired(proxy.SlowClose) })
		})
	}},

	{name: "a confirm is swallowed", holds: always, play: func(r *rig) {
		r.underLoad(func(c *process) {
			var swallowed *proxy.Armed
			r.during("a confirm swallowed", func() {
				var begun time.Time
				r.eventually(150*time.Second, "the session is given up", func() (bool, string) {
					// The confirm after it may be for both publications: then none is missing, and another is swallowed.
					// Confirms are awaited for 30 s.
					if time.Since(begun) > 50*time.Second {
						begun, swallowed = time.Now(), c.proxy.Add(proxy.Rule{Name: "swallow the next confirm",
							From: proxy.Server, Match: proxy.Is(proxy.Ack), After: 5, Action: proxy.Swallow})
					}
					n := c.status().Broker.Sessions
					return n >= 2, fmt.Sprintf("%d sessions, %v", n, swallowed)
				})
				r.say("noticed after %v", time.Since(begun).Round(time.Second))
			}, func() int { return swallowed.Fired() })
		})
	}},
	{name: "confirms take 3 s", short: true, holds: withoutFault, play: func(r *rig) {
		r.underLoad(func(c *process) {
			delayed := c.proxy.Add(proxy.Rule{Name: "delay confirms", From: proxy.Server, Match: proxy.Is(proxy.Ack),
				Action: proxy.Delay, For: 3 * time.Second, Times: proxy.Always})
			r.during("confirms delayed", func() { r.pause(4 * time.Second) }, delayed.Fired)
			c.proxy.Heal()
			r.oneSession(c)
		})
	}},
	{name: "cut after the third dispatch", holds: always, play: func(r *rig) {
		r.underLoad(func(c *process) {
			cut := c.proxy.Add(proxy.Rule{Name: "cut after the third dispatch", From: proxy.Client,
				Match: proxy.PublishTo("", dispatches), After: 2, Action: proxy.CutAfter})
			r.during("cut", func() {
				c.awaitStatus("a second session", func(s view.Status) bool { return s.Broker.Sessions >= 2 })
			}, cut.Fired)
		})
	}},
}

// cut ends connections, and waits until there is another session.
func (r *rig) cut(c *process, name string, how func() int) {
	r.t.Helper()
	before := c.status().Broker.Sessions
	hit := 0
	r.during(name, func() {
		hit = how()
		c.awaitStatus("another session is tried", func(s view.Status) bool {
			return s.Broker.Sessions > before ||
				!s.Broker.Connected
		})
	}, func() int { return hit })
}

// oneSession asserts that the fault was no reason to connect again.
func (r *rig) oneSession(c *process) {
	r.t.Helper()
	if n := c.status().Broker.Sessions; n != 1 {
		r.t.Errorf("%d sessions: what is only slow is no reason to connect again", n)
	}
}

// silence is a network from which nothing comes any more, in the given ways, until the
// coordinator has noticed; which must not take longer than within.
func silence(name string, client, server proxy.Toxic, kind proxy.Fault, within time.Duration) cell {
	return cell{name: name, holds: always, play: func(r *rig) {
		r.underLoad(func(c *process) {
			r.during(name, func() {
				begun := time.Now()
				c.proxy.Toxic(proxy.Client, client)
				c.proxy.Toxic(proxy.Server, server)
				r.notices(c, begun, within)
				c.proxy.Heal()
			}, func() int { return c.proxy.Fired(kind) })
		})
	}}
}

// notices waits until the coordinator has given up its session, and says so (L5).
func (r *rig) notices(c *process, since time.Time, within time.Duration) {
	r.t.Helper()
	r.eventually(2*within, "the coordinator notices", func() (bool, string) {
		var ready view.Readiness
		c.read("/readyz", &ready)
		return !ready.Ready, ready.State
	})
	took := time.Since(since)
	if took > within {
		r.t.Errorf("noticed after %v, want at most %v", took, within)
	}
	r.say("noticed after %v: %s", took.Round(100*time.Millisecond), c.log.Field(sessionEnded, "error"))
}

// fullBuffers makes the coordinator block in a write, while it goes on hearing the
// broker's heartbeats: only a deadline of its own can free it.
func fullBuffers(r *rig) {
	r.underLoad(func(c *process) {
		var large []request
		for i := range 60 {
			q := task(fmt.Sprint("large-", i), "build")
			q.Payload = json.RawMessage(`{"pad":"` + string(bytes.Repeat([]byte("x"), 900<<10)) + `"}`)
			large = append(large, q)
		}
		r.during("blackhole under 54 MiB of dispatches", func() {
			begun := time.Now()
			c.proxy.Toxic(proxy.Client, proxy.Toxic{Blackhole: true})
			r.submit(large...)
			// The write deadline is 20 s from when the buffers are full.
			r.notices(c, begun, 28*time.Second)
			c.proxy.Heal()
		}, func() int { return c.proxy.Fired(proxy.Blackhole) })
	})
}

// slowness is a network that is bad for a while, at which no session may be lost.
func slowness(name string, short bool, t proxy.Toxic, kind proxy.Fault, last time.Duration, rate int) cell {
	return cell{name: name, short: short, holds: withoutFault, play: func(r *rig) {
		c := r.serve()
		r.work(4, 5, usual)
		p := r.produce("t", "build", rate, 1_000_000)
		r.inFullSwing(20)
		r.during(name, func() {
			c.proxy.Both(t)
			r.pause(last)
			c.proxy.Heal()
		}, func() int { return c.proxy.Fired(kind) })
		r.oneSession(c)
		r.resumes()
		p.finish()
	}}
}

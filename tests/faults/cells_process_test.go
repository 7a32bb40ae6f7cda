package faults

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/view"
	"taskbus/tests/faults/proxy"
)

// What happens to the coordinator's process.

var processCells = []cell{
	// The windows of a crash, found on the wire: the process is dead before the frame
	// goes on.
	killAt("SIGKILL before the broker has a dispatch", true, proxy.Client, proxy.PublishTo("", dispatches), 20, proxy.Cut),
	killAt("SIGKILL before it hears a confirm", true, proxy.Server, proxy.Is(proxy.Ack), 20, proxy.Cut),
	killAt("SIGKILL before the broker hears an acknowledgement", true, proxy.Client, proxy.AckOf(bus.QueueAssign), 10,
		proxy.Cut),
	killAt("SIGKILL after the broker has an acknowledgement", false, proxy.Client, proxy.AckOf(bus.QueueAssign), 10,
		proxy.Pass),
	killAt("SIGKILL when a task comes", false, proxy.Server, proxy.DeliverFrom(bus.QueueAssign), 50, proxy.Pass),
	killAt("SIGKILL when a report comes", false, proxy.Server, proxy.DeliverFrom(bus.StreamStatus), 10, proxy.Pass),
	killAt("SIGKILL when a result comes", false, proxy.Server, proxy.DeliverFrom(bus.StreamResult), 50, proxy.Pass),

	{name: "SIGKILL 3 times at random", short: true, holds: decidedOnce, play: func(r *rig) { r.killLoop(3) }},
	{name: "SIGKILL 30 times at random", holds: decidedOnce, play: func(r *rig) { r.killLoop(30) }},
	// The promise is older than the journal: without it copies may go to others.
	{name: "SIGKILL without a journal", config: unjournalled, holds: always, play: func(r *rig) {
		r.trace.Journal = false
		r.killLoop(3)
	}},
	{name: "SIGKILL while starting", holds: always, play: func(r *rig) {
		r.work(4, 5, usual)
		r.serve().stop() // the queues must be there
		p := r.produce("t", "build", 100, 1_000_000)
		for range 6 {
			c := r.launch(start{})
			r.pause(time.Duration(r.chance.Int64N(int64(1500 * time.Millisecond))))
			c.kill()
		}
		r.serve()
		r.resumes()
		p.finish()
	}},

	{name: "SIGTERM in mid-stream, twice", short: true, holds: withoutFault, play: func(r *rig) {
		c := r.serve()
		r.work(4, 5, usual)
		p := r.produce("t", "build", 150, 1_000_000)
		for range 2 {
			r.inFullSwing(50)
			c.stop() // L2
			r.struck("SIGTERM")
			c = r.serve()
		}
		r.resumes()
		p.finish()
	}},
	{name: "SIGTERM twice in a drain that cannot end", holds: always, play: func(r *rig) {
		c := r.serve()
		r.work(4, 5, usual)
		r.produce("t", "build", 150, 1_000_000)
		r.inFullSwing(30)
		swallowed := c.proxy.Add(proxy.Rule{Name: "swallow confirms", From: proxy.Server, Match: proxy.Is(proxy.Ack),
			Action: proxy.Swallow, Times: proxy.Always})
		r.during("confirms swallowed, two SIGTERM", func() {
			<-swallowed.Acted()
			c.signal(syscall.SIGTERM)
			r.eventually(patience, "it drains", func() (bool, string) { return c.log.Has("draining"), c.log.Tail(3) })
			r.pause(time.Second) // the drain must not end by itself
			c.mayNotHaveEnded()
			begun := time.Now()
			c.signal(syscall.SIGTERM)
			if code := c.wait(patience); code != 1 || time.Since(begun) > 3*time.Second {
				r.t.Errorf("L2: exit code %d after %v, want 1 at once", code, time.Since(begun))
			}
		}, swallowed.Fired)
		r.serve()
		r.resumes()
	}},

	// The broker decides after three missed heartbeats of 5 s that a silent client is
	// dead; what the process does when it wakes up belongs to a session that is over.
	{name: "SIGSTOP 60 s, SIGCONT", holds: always, play: func(r *rig) {
		r.underLoad(func(c *process) {
			r.during("SIGSTOP for 60 s", func() {
				c.signal(syscall.SIGSTOP)
				r.pause(60 * time.Second)
				c.signal(syscall.SIGCONT)
			}, func() int { return 1 })
			c.awaitStatus("a second session", func(s view.Status) bool { return s.Broker.Sessions >= 2 })
		})
	}},
	{name: "SIGSTOP of a leader with a standby", holds: always, play: func(r *rig) {
		first := r.serve()
		r.work(4, 5, usual)
		p := r.produce("t", "build", 100, 1_000_000)
		second := r.launch(start{})
		second.awaitState("standby")
		r.inFullSwing(30)
		r.during("SIGSTOP of the leader", func() {
			stopped := time.Now()
			first.signal(syscall.SIGSTOP)
			r.eventually(60*time.Second, "the standby leads", func() (bool, string) {
				var ready view.Readiness
				second.read("/readyz", &ready)
				return ready.Ready, ready.State
			})
			// Three heartbeats of 5 s, in RabbitMQ's way of counting, and 2 s.
			if took := time.Since(stopped); took > 17*time.Second {
				r.t.Errorf("the take-over took %v, want at most 17 s", took)
			} else {
				r.say("taken over after %v", took.Round(100*time.Millisecond))
			}
			r.inFullSwing(30)
			// What it says when it wakes up must not reach any client.
			late := first.proxy.Add(proxy.Rule{
				Name: "what only a leader publishes, by the old one", From: proxy.Client, Times: proxy.Always,
				Match: func(f *proxy.Frame) bool {
					return f.Method == proxy.Publish && (f.Exchange == bus.ExchangeEvents || f.Key == bus.StreamJournal ||
						strings.HasPrefix(f.Key, dispatches))
				},
			})
			first.signal(syscall.SIGCONT)
			first.awaitState("standby")
			r.inFullSwing(30)
			if n := late.Fired(); n > 0 {
				r.t.Errorf("the old leader published %d times after another had taken over", n)
			}
		}, func() int { return 1 })
		r.resumes()
		p.finish()
	}},
	{name: "SIGKILL of a leader with a standby", short: true, holds: always, play: func(r *rig) {
		first := r.serve()
		r.work(4, 5, usual)
		p := r.produce("t", "build", 100, 1_000_000)
		second := r.launch(start{})
		second.awaitState("standby")
		r.inFullSwing(30)
		died := time.Now()
		first.kill()
		second.awaitState("active")
		// Its two seconds are tests/failover's, which measures many with nothing beside them.
		if took := time.Since(died); took > 10*time.Second {
			r.t.Errorf("the take-over took %v, want at most 10 s beside other cells", took)
		} else {
			r.say("taken over after %v", took.Round(10*time.Millisecond))
		}
		r.resumes()
		p.finish()
	}},
	{name: "leaders killed in turn, standbys behind them", holds: always, play: func(r *rig) {
		r.serve()
		r.work(4, 5, usual)
		p := r.produce("t", "build", 100, 1_000_000)
		for range 5 {
			next := r.launch(start{})
			next.awaitState("standby")
			r.inFullSwing(20)
			r.processes[len(r.processes)-2].kill()
			next.awaitState("active")
		}
		r.resumes()
		p.finish()
	}},

	{name: "few file descriptors", holds: always, play: func(r *rig) {
		// Enough to run, not enough for all that asks.
		c := r.launch(start{through: []string{"/bin/sh", "-c", `ulimit -n 24; exec "$@"`, "sh"}})
		c.awaitState("active")
		r.work(4, 5, usual)
		p := r.produce("t", "build", 100, 1_000_000)
		r.inFullSwing(20)
		unanswered := 0
		r.during("connections to its HTTP interface beyond its descriptors", func() {
			var open []net.Conn
			for range 60 {
				conn, err := net.DialTimeout("tcp", c.base[len("http://"):], time.Second)
				if err != nil {
					unanswered++
					continue
				}
				open = append(open, conn)
				_, _ = conn.Write([]byte("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")) // no answer is counted below
			}
			r.inFullSwing(50) // work goes on meanwhile
			for _, conn := range open {
				_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
				if n, _ := conn.Read(make([]byte, 1)); n == 0 {
					unanswered++
				}
				_ = conn.Close()
			}
		}, func() int { return unanswered })
		r.resumes()
		p.finish()
	}},
	{name: "a disk full for logs", short: true, holds: withoutFault, play: func(r *rig) {
		// Every write to it fails with ENOSPC.
		c := r.launch(start{stderr: "/dev/full", http: r.freeAddress(), env: []string{"LOG_LEVEL=debug"}})
		c.awaitState("active")
		r.work(4, 5, usual)
		p := r.produce("t", "build", 120, 1_000_000)
		r.inFullSwing(100)
		r.struck("no line of the log could be written")
		r.resumes()
		p.finish()
		r.eventually(patience, "all is settled", func() (bool, string) {
			open, _ := r.book.open()
			return len(open) == 0, fmt.Sprint(len(open))
		})
		// That the log cannot be written may be told by the exit code; the drain must
		// be in time all the same.
		c.signal(syscall.SIGTERM)
		c.wait(grace + 5*time.Second)
		r.serve()
		r.resumes()
	}},
}

// unjournalled is quartet without a journal.
var unjournalled = quartet + "journal: {enabled: false}\n"

// killAt kills the coordinator when the n-th such frame passes.
func killAt(name string, short bool, from proxy.Side, match func(*proxy.Frame) bool, n int, do proxy.Action) cell {
	return cell{name: name, short: short, holds: decidedOnce, config: fleet(4, 20), play: func(r *rig) {
		c := r.serve()
		r.work(4, 20, slow)
		p := r.produce("t", "build", 80, 1_000_000)
		killed := c.proxy.Add(proxy.Rule{Name: name, From: from, Match: match, After: n, Action: do, Hook: func() {
			_ = c.cmd.Process.Kill() // it runs: it has just been talking
			<-c.exited
		}})
		r.eventually(patience, "the coordinator is killed", func() (bool, string) { return !c.running(), killed.String() })
		if c.code != -1 {
			r.t.Errorf("it ended with exit code %d", c.code)
		}
		r.proven(name, killed.Fired())
		r.serve()
		r.resumes()
		p.finish()
	}}
}

// killLoop kills coordinators at random instants of their work.
func (r *rig) killLoop(times int) {
	r.t.Helper()
	c := r.serve()
	r.work(4, 5, usual)
	p := r.produce("t", "build", 150, 1_000_000)
	for range times {
		r.inFullSwing(20)
		r.pause(time.Duration(r.chance.Int64N(int64(400 * time.Millisecond))))
		c.kill()
		c = r.serve()
	}
	r.resumes()
	p.finish()
}

// freeAddress is one that is free just now.
func (r *rig) freeAddress() string {
	r.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

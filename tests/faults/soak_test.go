package faults

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"taskbus/tests/faults/proxy"
	"taskbus/tests/support/brokertest"
)

// TestSoak lets random faults strike, one after the other, for as long as -faults.soak
// says, on a node of its own with two coordinators. The first of them is never killed:
// its memory and its goroutines must not grow. The seed gives the same faults in the same order;
// when exactly they strike depends on the machine.
func TestSoak(t *testing.T) {
	t.Parallel()
	last := *soakFor
	switch {
	case last == 0 && *wholeMatrix:
		last = time.Minute
	case last == 0:
		t.Log("no soak in the short form: -faults.soak=DURATION asks for one (make soak)")
		return
	}
	node := brokertest.Private(t, brokertest.Options{})
	c := cell{name: "soak", config: soakFleet, holds: listening, play: func(r *rig) { soak(r, last) }}
	c.run(t, node)
}

// nemesis is one kind of fault and how often it is drawn.
type nemesis struct {
	name   string
	weight int
	// play lets it strike and takes it back.
	play func(s *soaking)
}

var nemeses = []nemesis{
	{"kill a coordinator", 6, func(s *soaking) {
		s.second.kill()
		s.second = s.r.launch(start{})
	}},
	{"make the second lead, and kill it", 3, func(s *soaking) {
		s.secondLeads()
		s.second.kill()
		s.second = s.r.launch(start{})
	}},
	{"SIGTERM", 4, func(s *soaking) {
		s.second.stop()
		s.r.struck("SIGTERM")
		s.second = s.r.launch(start{})
	}},
	{"SIGSTOP", 4, func(s *soaking) {
		c := s.either()
		s.hit("SIGSTOP", func() {
			c.signal(syscall.SIGSTOP)
			s.r.pause(s.upTo(8 * time.Second))
			c.signal(syscall.SIGCONT)
		})
	}},
	{"RST", 6, func(s *soaking) { c := s.either(); s.hit("RST", func() { c.proxy.Reset() }) }},
	{"FIN", 3, func(s *soaking) { c := s.either(); s.hit("FIN", func() { c.proxy.Finish() }) }},
	{"latency", 4, func(s *soaking) {
		s.toxic(proxy.Toxic{Latency: s.upTo(400 * time.Millisecond), Jitter: s.upTo(200 * time.Millisecond)})
	}},
	{"bandwidth", 3, func(s *soaking) {
		s.toxic(proxy.Toxic{BytesPerSecond: 20_000 + int(s.r.chance.Int64N(200_000))})
	}},
	{"blackhole", 4, func(s *soaking) { s.toxic(proxy.Toxic{Blackhole: true}) }},
	{"timeout", 2, func(s *soaking) { s.toxic(proxy.Toxic{Timeout: true}) }},
	{"slicer", 3, func(s *soaking) { s.toxic(proxy.Toxic{Slice: 1 + int(s.r.chance.Int64N(20))}) }},
	{"limit_data", 3, func(s *soaking) { s.toxic(proxy.Toxic{LimitData: 1 + s.r.chance.Int64N(50_000)}) }},
	{"confirms delayed", 3, func(s *soaking) {
		c := s.either()
		c.proxy.Add(proxy.Rule{Name: "delay confirms", From: proxy.Server, Match: proxy.Is(proxy.Ack), Action: proxy.Delay,
			For: s.upTo(3 * time.Second), Times: proxy.Always})
		s.hit("confirms delayed", func() { s.r.pause(s.upTo(5 * time.Second)) })
		c.proxy.Heal()
	}},
	{"a confirm swallowed", 1, func(s *soaking) {
		c := s.either()
		c.proxy.Add(proxy.Rule{Name: "swallow a confirm", From: proxy.Server, Match: proxy.Is(proxy.Ack),
			Action: proxy.Swallow})
		s.hit("a confirm swallowed", func() { s.r.pause(35 * time.Second) })
		c.proxy.Heal()
	}},
	{"connections closed by an operator", 2, func(s *soaking) {
		s.hit("close_all_connections", func() { s.r.broker.CloseConnections(s.r.t) })
	}},
	{"an agent dies", 5, func(s *soaking) {
		id := fmt.Sprint("a", 1+s.r.chance.Int64N(6))
		s.hit("an agent dies", func() {
			s.r.agents[id].fire()
			s.r.pause(s.upTo(3 * time.Second))
			s.r.hire(id, 10, s.r.agents[id].agentOptions)
		})
	}},
	{"the broker stops and starts", 1, func(s *soaking) {
		s.hit("stop_app, start_app", func() {
			s.r.broker.Ctl(s.r.t, "stop_app")
			s.r.broker.Ctl(s.r.t, "start_app")
		})
	}},
	{"the broker is killed", 1, func(s *soaking) {
		s.hit("SIGKILL of the broker", func() { s.r.node.Kill9(s.r.t); s.r.node.Start(s.r.t) })
	}},
	{"memory alarm", 1, func(s *soaking) {
		s.hit("memory alarm", func() {
			s.r.broker.Ctl(s.r.t, "set_vm_memory_high_watermark", "0.000001")
			s.r.pause(s.upTo(8 * time.Second))
			s.r.broker.Ctl(s.r.t, "set_vm_memory_high_watermark", "0.4")
		})
	}},
	{"reload", 3, func(s *soaking) {
		s.r.struck("reload")
		s.r.configure(strings.Replace(soakFleet, "max_retry_attempts: 20",
			fmt.Sprint("max_retry_attempts: ", 20+s.r.chance.Int64N(5)), 1))
	}},
	{"an idle agent dies", 3, func(s *soaking) {
		leader := s.leader()
		s.r.missed(leader, "a7")
		s.r.submit(many(fmt.Sprint("late-", s.number), "brief", 5)...)
		s.r.hire("a7", 10, briefly)
		s.r.pause(3 * time.Second) // they are done: what comes next must not outlast what they are given
	}},
	{"an alarm longer than a lease", 1, func(s *soaking) {
		s.r.briefAlarm(s.leader(), "brief", 10, 8*time.Second)
		s.r.pause(5 * time.Second)
	}},
	{"a task that kills its agents", 2, func(s *soaking) {
		id := fmt.Sprint("poison-", s.number)
		s.hit("agents die of "+id, func() {
			s.r.submit(task(id, "build"))
			s.r.eventually(2*time.Minute, id+" is parked", func() (bool, string) {
				e := s.r.book.entry(id)
				return len(e.failures) > 0, e.String()
			})
		})
	}},
	{"a leader whose clock is ahead, killed", 2, func(s *soaking) {
		s.second.kill()
		s.second = s.r.ahead("20s") // less than a task may wait
		s.secondLeads()
		s.r.pause(s.upTo(3 * time.Second))
		s.second.kill()
		s.second = s.r.launch(start{})
	}},
	{"lanes dropped while they are fed", 1, func(s *soaking) {
		leader := s.leader()
		burst := func(n int) {
			tasks := many(fmt.Sprint("burst-", s.number, "-", n), "build", 900)
			for i := range tasks {
				tasks[i].Group = fmt.Sprint("g", i/300)
			}
			s.r.submit(tasks...)
		}
		dropped := leader.proxy.Add(proxy.Rule{
			Name: "lanes are dropped, slowly", From: proxy.Client, Action: proxy.Delay, For: 3 * time.Second,
			Times: proxy.Always,
			Match: func(f *proxy.Frame) bool { return f.Method == proxy.QueueDelete },
		})
		burst(1)
		s.hit("lanes dropped while they are fed", func() {
			select {
			case <-dropped.Acted():
			case <-time.After(40 * time.Second): // it has changed hands meanwhile, or all was done before any was moved
			}
			burst(2)
			s.r.pause(4 * time.Second)
		})
	}},
	{"one id twenty times", 2, func(s *soaking) {
		s.r.struck("copies")
		s.hit("copies", func() { s.r.repeat(fmt.Sprint("same-", s.number), 20) })
	}},
}

// soakFleet are six agents for what goes on all the time, and one with a short time for its tasks that
// is idle but for a few of them. What is recorded is larger than a message may be with each change of it.
var soakFleet = strings.NewReplacer(
	"task_routing:",
	"  a7: {capabilities: [brief], max_concurrent_tasks: 10, health_check_interval: 1, accept_timeout_seconds: 600, "+
		"timeout_seconds: 5}\ntask_routing:\n  brief: {required_capabilities: [brief]}",
).Replace(fleet(6, 10, "window: 400", "lanes: []")) + "journal: {record_inputs: true}\n"

// soakers are the agents of a soak; briefly is how the last of them works.
var (
	soakers = agentOptions{work: 50 * time.Millisecond, refuse: oneInSix}
	briefly = agentOptions{work: time.Second}
)

// soaking is a soak under way.
type soaking struct {
	r             *rig
	first, second *process
	number        int
	samples       []sample
}

// sample is what the first coordinator takes at one moment.
type sample struct {
	rss        int64
	goroutines float64
	leads      bool
}

func (one sample) String() string {
	return fmt.Sprintf("%d MiB, %.0f goroutines, leads %t", one.rss>>20, one.goroutines, one.leads)
}

func soak(r *rig, last time.Duration) {
	r.fates = []fate{{"poison", "poisoned"}}
	s := &soaking{r: r, first: r.serve()}
	r.listen()
	r.largeQuotas(s.first)
	s.second = r.launch(start{})
	s.second.awaitState("standby")
	r.poisonable(6, 10, soakers)
	r.hire("a7", 10, briefly)
	// With two users of one broker, and for hours: what matters is that work goes on,
	// not how much of it.
	r.produce("t", "build", 60, 1<<40)
	r.inFullSwing(50)
	end := time.Now().Add(last)
	for time.Now().Before(end) && !r.t.Failed() {
		n := s.draw()
		s.number++
		begun := time.Now()
		n.play(s)
		s.first.proxy.Heal()
		s.second.proxy.Heal()
		r.eventually(2*time.Minute, "work goes on after: "+n.name, s.moved(20))
		s.first.mayNotHaveEnded()
		taken := s.sample()
		r.t.Logf("%s fault %d: %s, %v; %d tasks run; %v", time.Now().Format("15:04:05"), s.number, n.name,
			time.Since(begun).Round(100*time.Millisecond), r.book.executed(), taken)
		s.nobodyWaits()
	}
	s.slopes(last)
}

// draw is the next nemesis, by weight.
func (s *soaking) draw() nemesis {
	all := 0
	for _, n := range nemeses {
		all += n.weight
	}
	left := int(s.r.chance.Int64N(int64(all)))
	for _, n := range nemeses {
		if left -= n.weight; left < 0 {
			return n
		}
	}
	return nemeses[0]
}

// leader is the coordinator that leads.
func (s *soaking) leader() (leader *process) {
	s.r.eventually(2*time.Minute, "one leads", func() (bool, string) {
		for _, c := range []*process{s.first, s.second} {
			if c.status().Readiness.Ready {
				leader = c
			}
		}
		return leader != nil, ""
	})
	return leader
}

// secondLeads makes it.
func (s *soaking) secondLeads() {
	s.second.awaitState("standby", "active")
	if s.second.status().Readiness.State == "standby" {
		s.first.proxy.Refuse(true)
		s.hit("the first loses its lock",
			func() { s.first.proxy.Reset(); s.second.awaitState("active"); s.first.proxy.Refuse(false) })
	}
}

func (s *soaking) either() *process {
	if s.r.chance.Int64N(2) == 0 {
		return s.first
	}
	return s.second
}

func (s *soaking) upTo(d time.Duration) time.Duration {
	return time.Duration(1 + s.r.chance.Int64N(int64(d)))
}

// hit notes a fault that lasts as long as f.
func (s *soaking) hit(name string, f func()) { s.r.during(name, f, func() int { return 1 }) }

// toxic lets a network be so for a while, in one direction or both.
func (s *soaking) toxic(t proxy.Toxic) {
	c, ways := s.either(), s.r.chance.Int64N(3)
	s.hit("a bad network", func() {
		if ways != 1 {
			c.proxy.Toxic(proxy.Client, t)
		}
		if ways != 0 {
			c.proxy.Toxic(proxy.Server, t)
		}
		s.r.pause(s.upTo(10 * time.Second))
	})
}

// moved tells whether so many more tasks have been run than when it was made.
func (s *soaking) moved(more int) func() (bool, string) {
	before := s.r.book.executed()
	return func() (bool, string) {
		n := s.r.book.executed() - before
		return n >= more, fmt.Sprintf("%d more tasks were run", n)
	}
}

// sample looks at the coordinator that lives through all of it.
func (s *soaking) sample() sample {
	leads := s.first.status().Readiness.Ready
	taken := sample{memory(s.first.cmd.Process.Pid), s.first.metric("go_goroutines"), leads}
	s.samples = append(s.samples, taken)
	return taken
}

// nobodyWaits asserts that no confirmed task is left behind while others pass (L3).
func (s *soaking) nobodyWaits() {
	const tooLong = 3 * time.Minute
	s.r.book.each(func(e *entry) {
		if e.confirmed && !e.settled() && time.Since(e.offered) > tooLong {
			s.r.t.Errorf("L3: waits for %v while others pass: %s", time.Since(e.offered).Round(time.Second), e)
		}
	})
}

// slopes compares the last quarter of the samples with the second: the first warms up.
// Ids that are remembered for an hour take some memory, and no more than that.
func (s *soaking) slopes(last time.Duration) {
	// A leader has more to do than a standby: leaders are compared with leaders.
	samples := slices.DeleteFunc(s.samples, func(one sample) bool { return !one.leads })
	quarter := len(samples) / 4
	if quarter < 3 {
		s.r.say("%d samples of a leader: too few for a slope", len(samples))
		return
	}
	early, late := samples[quarter:2*quarter], samples[len(samples)-quarter:]
	sorted := func(of []sample, value func(sample) float64) []float64 {
		all := make([]float64, len(of))
		for i, one := range of {
			all[i] = value(one)
		}
		slices.Sort(all)
		return all
	}
	middle := func(of []sample, value func(sample) float64) float64 { return sorted(of, value)[len(of)/2] }
	rss := func(one sample) float64 { return float64(one.rss) / (1 << 20) }
	goroutines := func(one sample) float64 { return one.goroutines }
	grown := middle(late, rss) - middle(early, rss)
	s.r.say("memory %.0f → %.0f MiB, goroutines %.0f → %.0f over the second half of %v", middle(early, rss),
		middle(late, rss), middle(early, goroutines), middle(late, goroutines), last)
	// 64 bytes for each of at most 60·3600 ids are 14 MB; the collector keeps three
	// times what is alive.
	if grown > 64 {
		s.r.t.Errorf("S12: the coordinator has grown by %.0f MiB", grown)
	}
	// A leader that has just begun has some twenty fewer: what leaks is beyond all that there were before.
	if more := middle(late, goroutines) - sorted(early, goroutines)[len(early)-1]; more > 20 {
		_, profile := s.first.get("/debug/pprof/goroutine?debug=1")
		s.r.t.Errorf("L6: the coordinator has %.0f more goroutines; now there are\n%s", more, profile)
	}
}

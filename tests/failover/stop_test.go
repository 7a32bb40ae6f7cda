package failover

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"taskbus/tests/support/brokertest"
)

// beat is the AMQP heartbeat of a coordinator whose URL does not say another. The broker
// gives up a connection after two to three times of silence.
const beat = 5 * time.Second

// silentTakeOver is the promise after the leader has fallen silent.
const silentTakeOver = 3*beat + takeOverWithin

// leaderIsStopped stops the leader's process and lets it go on when another one
// leads: as a machine does that is suspended, or a container that gets no CPU.
func leaderIsStopped(t *testing.T) {
	r := newRig(t, brokertest.Vhost(t).URL)
	first := r.launch("the first", r.url)
	first.awaitState("active")
	second := r.launch("the second", r.url)
	second.awaitState("standby")
	r.hire().letGo()
	online(first)
	l := r.load("t", 200)
	begun(r)

	// Under load: what it had sent when it was stopped counts, and nothing after that.
	stopped := time.Now()
	first.signal(syscall.SIGSTOP)
	ready, dispatched := second.takeOver(stopped)
	t.Logf("after SIGSTOP, with a heartbeat of %v: /readyz 200 after %v, first dispatch after %v", beat,
		ready.Round(time.Millisecond), dispatched.Round(time.Millisecond))
	if ready > silentTakeOver || dispatched > silentTakeOver {
		t.Errorf("want both within %v", silentTakeOver)
	}
	second.awaitDispatches(200)
	first.signal(syscall.SIGCONT)
	first.awaitState("standby")
	confirmed := first.confirmed()
	second.awaitDispatches(200)
	// Its mark in agent.status may be confirmed just after it says that it stands by.
	if n := first.confirmed() - confirmed; n > 1 {
		t.Errorf("as a standby, the first has published %v messages", n)
	}
	if leader := first.status().Leader; leader == nil || leader.Instance != second.instance {
		t.Errorf("the first takes %+v for the leader", leader)
	}

	// At rest, but for tasks that no agent can do: their time is up while the leader is
	// stopped, so that it wants to fail them as soon as it goes on. Now its messages
	// can be counted one by one. They come all at once: when the last has come, the time
	// of the first is not to be up.
	l.paused.Store(true)
	r.drained()
	second.awaitSilence()
	waiting := make([]request, 50)
	for i := range waiting {
		waiting[i] = task(fmt.Sprint(i, "-waits-and-fails"), "wait")
	}
	r.offer(waiting...)
	r.eventually(patience, "the second holds them", func() (bool, string) {
		s := second.status()
		return s.Pending.Total == 50 && s.Pending.Dispatching == 0, fmt.Sprintf("%+v", s.Pending)
	})
	before, records := second.confirmed(), second.metric("taskbus_journal_records_total")
	stopped = time.Now()
	second.signal(syscall.SIGSTOP)
	l.paused.Store(false)
	ready, _ = first.takeOver(stopped)
	t.Logf("and again: /readyz 200 after %v", ready.Round(time.Millisecond))
	r.eventually(patience, "the tasks that wait have failed by the word of the first", func() (bool, string) {
		open, _ := r.book.open()
		return r.book.look("49-waits-and-fails").settled(), fmt.Sprint(open, " open")
	})
	second.signal(syscall.SIGCONT)
	second.awaitState("standby")
	// Its new session marks the end of agent.status, and that is all.
	if n := second.confirmed() - before; n > 1 {
		t.Errorf("resumed, the second has got %v messages confirmed, want its mark alone", n)
	}
	t.Logf("resumed, it has tried to write %v records for 50 tasks whose time was up",
		second.metric("taskbus_journal_records_total")-records)

	// It leads again when the other is gone.
	died := first.kill()
	ready, dispatched = second.takeOver(died)
	t.Logf("and after SIGKILL of the other: /readyz 200 after %v, first dispatch after %v", ready.Round(time.Millisecond),
		dispatched.Round(time.Millisecond))
	second.awaitDispatches(200)
	l.finish()
	r.drained()
	for i := range 50 {
		// By the word of the first alone.
		if e := r.book.look(fmt.Sprint(i, "-waits-and-fails")); len(e.ends) != 1 {
			t.Errorf("a task that the stopped leader wanted to fail: %+v", e)
		}
	}
	journal := r.conclude(second, 4)
	if n := journal.records[2]; n != uint64(records) {
		t.Errorf("the second had written %v records when it was stopped, the journal has %d of its epoch", records, n)
	}
	for i, c := range journal.leaders {
		if want := []*process{first, second, first, second}[i]; c.instance != want.instance {
			t.Errorf("epoch %d is that of %s, want %s", c.epoch, c.instance, want.name)
		}
	}
}

// confirmed counts the publications that the broker has confirmed to this process.
func (c *process) confirmed() float64 {
	c.r.t.Helper()
	return c.metric(`taskbus_publish_outcomes_total{outcome="confirmed"}`)
}

// awaitSilence waits until the process has published nothing for a second, and the broker
// has confirmed it all: what was learnt of the last tasks follows them into the journal.
func (c *process) awaitSilence() {
	c.r.t.Helper()
	var was string
	var since time.Time
	c.r.eventually(patience, c.name+" is silent", func() (bool, string) {
		s := c.status()
		now := fmt.Sprint(c.confirmed(), " confirmed, ", s.Journal.Records, " records")
		if was != now {
			was, since = now, time.Now()
		}
		return s.Counters.Held == 0 && time.Since(since) > time.Second, now
	})
}

// awaitDispatches waits until the process has dispatched so many tasks more.
func (c *process) awaitDispatches(more uint64) {
	c.r.t.Helper()
	from := c.status().Counters.Dispatched
	c.r.eventually(patience, fmt.Sprintf("%s dispatches %d tasks", c.name, more), func() (bool, string) {
		n := c.status().Counters.Dispatched - from
		return n >= more, fmt.Sprint(n)
	})
}

// begun waits until the load is in full swing.
func begun(r *rig) {
	r.t.Helper()
	r.eventually(patience, "tasks come in", func() (bool, string) {
		open, confirmed := r.book.open()
		return confirmed > 300, fmt.Sprint(confirmed, " accepted, ", open, " open")
	})
}

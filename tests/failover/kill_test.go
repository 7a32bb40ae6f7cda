package failover

import (
	"fmt"
	"math"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"taskbus/coordinator/view"
	"taskbus/tests/support/brokertest"
)

// takeOverWithin is the promise after the death of the leader's process.
const takeOverWithin = 2 * time.Second

// TestTakeOverInTime has the tests that hold a take-over to a time. Nothing runs beside them: on two cores that are
// busy with other brokers and coordinators the times would be of these.
func TestTakeOverInTime(t *testing.T) {
	t.Run("the leader is killed", leaderIsKilled)
	t.Run("one leader after the other is killed", leadersAreKilled)
}

// TestTakeOverOnOneBroker has the others that leave their broker alone.
func TestTakeOverOnOneBroker(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"the leader ends in order", leaderEnds},
		{"the leader is stopped and goes on", leaderIsStopped},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t)
		})
	}
}

// leaderIsKilled kills the leader in the middle of some hundred tasks a second, of
// which some are with an agent that holds them.
func leaderIsKilled(t *testing.T) {
	r := newRig(t, brokertest.Vhost(t).URL)
	first := r.launch("the first", r.url)
	first.awaitState("active")
	second := r.launch("the second", r.url)
	second.awaitState("standby")
	keeper := r.hire()
	online(first)

	// What the new leader will have to know: orders, leases, ids, success rates.
	order(first, "cordon", "plain-2")
	const held = 5
	for i := range held {
		r.offer(task(fmt.Sprint("held-", i), "keep"))
	}
	r.offer(task("done-before", "build"))
	l := r.load("t", 300)
	r.eventually(patience, "the agents have learnt, and what is held is with its agent", func() (bool, string) {
		_, outcomes := first.learnt("sdk-1")
		leased := first.agent("keeper").Leased
		return outcomes > 200 && leased == held && r.book.look("done-before").settled(),
			fmt.Sprint(outcomes, " outcomes, ", leased, " leased")
	})
	second.awaitStatus("knows the leases as it stands by",
		func(s view.Status) bool { return leased(s, "keeper") == held })
	rate, outcomes := first.learnt("sdk-1")

	died := first.kill()
	ready, dispatched := second.takeOver(died)
	status := second.status()
	rateAfter, outcomesAfter := second.learnt("sdk-1")

	t.Logf("after SIGKILL: /readyz 200 after %v, first dispatch after %v", ready.Round(time.Millisecond),
		dispatched.Round(time.Millisecond))
	if ready > takeOverWithin || dispatched > takeOverWithin {
		t.Errorf("want both within %v", takeOverWithin)
	}
	if status.Leader == nil || status.Leader.Epoch != 2 {
		t.Errorf("leader: %+v", status.Leader)
	}
	if n := leased(status, "keeper"); n != held {
		t.Errorf("the new leader knows of %d leases of keeper, want %d", n, held)
	}
	// Nearly as much is known as before; a leader that knew nothing would begin at 0.
	if outcomesAfter < 0.9*outcomes || math.Abs(rateAfter-rate) > 0.02 {
		t.Errorf("sdk-1 succeeds with %.3f by %.0f outcomes, before the take-over it was %.3f by %.0f", rateAfter,
			outcomesAfter, rate, outcomes)
	}
	if !second.agent("plain-2").Cordoned {
		t.Error("plain-2 is not cordoned any more")
	}

	// The same message again is a copy; another one under the same id is refused.
	other := task("done-before", "build")
	other.Payload = []byte(`{"of": "something else"}`)
	r.offer(task("done-before", "build"), other, task("held-0", "keep"))
	r.eventually(patience, "the copies are refused", func() (bool, string) {
		r.book.mu.Lock()
		defer r.book.mu.Unlock()
		d := r.book.duplicates
		return d["done-before"] == 1 && d["done-before refused"] == 1 && d["held-0"] == 1, fmt.Sprint(d)
	})

	// What was begun under the old leader ends under the new one, once.
	keeper.letGo()
	second.awaitStatus("nothing is leased to keeper", func(s view.Status) bool { return leased(s, "keeper") == 0 })
	l.finish()
	r.drained()
	for i := range held {
		e := r.book.look(fmt.Sprint("held-", i))
		if len(e.runs) != 1 || len(e.done) != 1 || len(e.ends) != 1 || e.ends[0].what != "succeeded" {
			t.Errorf("what was held: %+v", e)
		}
	}
	if n := r.book.begunBy("plain-2", died); n > 0 {
		t.Errorf("plain-2 was given %d tasks after the take-over, although it is cordoned", n)
	}
	r.conclude(second, 2)
}

// leaderEnds is a rolling restart: SIGTERM for the leader, while a standby waits.
// Nothing is doubled by it.
func leaderEnds(t *testing.T) {
	r := newRig(t, brokertest.Vhost(t).URL)
	first := r.launch("the old one", r.url)
	first.awaitState("active")
	second := r.launch("the new one", r.url)
	second.awaitState("standby")
	r.hire().letGo()
	online(first)
	l := r.load("t", 300)
	begun(r)
	told := time.Now()
	first.signal(syscall.SIGTERM)
	ready, dispatched := second.takeOver(told)
	t.Logf("after SIGTERM: /readyz 200 after %v, first dispatch after %v", ready.Round(time.Millisecond),
		dispatched.Round(time.Millisecond))
	if code := first.wait(); code != 0 {
		t.Errorf("the old one ended with exit code %d", code)
	}
	second.awaitDispatches(300)
	l.finish()
	r.drained()
	r.conclude(second, 2)
	if sum, _ := r.book.audit(t, true); sum.copies > 0 || sum.toldTwice > 0 {
		t.Errorf("an orderly end has doubled something: %s", sum)
	}
}

// conclude draws the balance when everything has come to rest under the last leader.
func (r *rig) conclude(leader *process, epochs int) *ledger {
	r.t.Helper()
	leader.awaitStatus("nothing is on its way, and with no agent", func(s view.Status) bool {
		return s.Pending.Total == 0 && s.Pending.Dispatching == 0 && s.Counters.Held == 0 && s.Pending.Leased == 0
	})
	status := leader.status()
	if status.Audit.Violations > 0 {
		r.t.Errorf("the auditor has found %+v", status.Audit.Found)
	}
	sum, suspects := r.book.audit(r.t, r.agentsLived)
	r.t.Log(sum)
	for _, e := range suspects {
		r.t.Logf("%s by its agents and the world: %+v\nby the journal:\n%s", e.id, e, r.journalShow(e.id))
	}
	if sum.confirmed == 0 || sum.failed == 0 {
		r.t.Error("there was nothing to look at")
	}
	l := r.readJournal(status.Journal.Records)
	l.verify(r)
	if len(l.leaders) != epochs {
		r.t.Errorf("%d leaders in the journal, want %d: %+v", len(l.leaders), epochs, l.leaders)
	}
	return l
}

// journalShow is all that the journal has of a task, as the program tells it.
func (r *rig) journalShow(task string) string {
	show := exec.Command(program, "journal", "show", task)
	show.Env = append(os.Environ(), "RABBITMQ_URL="+r.url)
	text, err := show.CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%s (%v)", text, err)
	}
	return string(text)
}

// online waits until every agent can be given work.
func online(c *process) {
	c.r.t.Helper()
	c.awaitStatus("its agents are online", func(s view.Status) bool {
		n := 0
		for _, a := range s.Agents {
			if a.Eligible {
				n++
			}
		}
		return n == 5 // all but absent
	})
}

func leased(s view.Status, agent string) int {
	for _, a := range s.Agents {
		if a.ID == agent {
			return a.Leased
		}
	}
	return -1
}

// order gives an operator's order.
func order(c *process, what, agent string) {
	c.r.t.Helper()
	code, body, err := c.ask(http.MethodPost, "/agents/"+agent+"/"+what)
	if err != nil || code != http.StatusOK {
		c.r.t.Fatalf("%s %s: %d %s, %v", what, agent, code, body, err)
	}
}

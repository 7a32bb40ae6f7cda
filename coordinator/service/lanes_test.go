package service

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/config/quotas"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/intake"
	"taskbus/messages"
	"taskbus/tests/support/membus"
)

// laned is a fleet of one agent with one slot and room for three waiting tasks.
const laned = `
agents:
  a1: {capabilities: [go], max_concurrent_tasks: 1, health_check_interval: 5}
task_routing: {build: {required_capabilities: [go]}}
global_settings: {assignment_timeout_seconds: 3600, window: 6, lanes: [research]}
`

// floods publishes so many tasks of the group research.
func (r *rig) floods(n int) {
	r.t.Helper()
	for i := range n {
		r.task(fmt.Sprint("t", i), "build", `,"group":"research"`, func(p *bus.Properties) {
			p.CorrelationID, p.MessageID, p.ReplyTo = fmt.Sprint("trace-", i), fmt.Sprint("m", i), "replies"
			p.Headers = map[string]any{messages.HeaderTraceParent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
				"x-death": "no"}
		})
	}
}

// worksOff has the agent do one task after the other until it has had none for a while.
func (w *worker) worksOff() (done []string) {
	w.r.t.Helper()
	for idle := 0; idle < 3; {
		if has := w.has(); len(has) > 0 {
			done, idle = append(done, has...), 0
			w.finish("succeeded", "")
		} else {
			idle++
			w.r.pass(time.Second)
		}
		w.report(w.has()...)
	}
	return done
}

// TestLaneAndBack: what crowds the window waits in its lane, visible in all views, as it came; when there
// is room it comes back and is dispatched, once, and the books balance.
func TestLaneAndBack(t *testing.T) {
	inRig(t, laned, func(r *rig) {
		w := r.worker("a1", false)
		r.floods(8)
		lane := r.broker.Messages("task.lane.research") // t0 is with its agent, three wait
		if len(lane) != 4 {
			t.Fatalf("%d tasks in the lane, want 4; log:\n%s", len(lane), r.log)
		}
		m := lane[0]
		if want := taskBody("t4", "build", `,"group":"research"`); string(m.Body) != want || m.CorrelationID != "trace-4" ||
			m.MessageID != "m4" || m.ReplyTo != "replies" {
			t.Errorf("in the lane: %+v %s", m.Properties, m.Body)
		}
		at, err := time.Parse(time.RFC3339Nano, messages.TextHeader(m.Headers, messages.HeaderAcceptedAt))
		if err != nil || at.After(time.Now()) || m.Headers["x-death"] != nil || m.Headers[messages.HeaderTraceParent] == nil {
			t.Errorf("headers in the lane: %v", m.Headers)
		}
		if done := strings.Join(w.worksOff(), " "); len(strings.Fields(done)) != 8 ||
			!strings.HasPrefix(done, "t0 t1 t2 t3 t4") {
			t.Errorf("done: %s", done)
		}
		if tally := r.service.observe.Books.Read(); tally.Outcomes[intake.Moved] < 4 ||
			tally.Outcomes[intake.Dispatched] != 8 || tally.Outcomes[intake.Dropped] != 0 {
			t.Errorf("the books: %s", &tally)
		}
		r.empty("task.lane.research")
	})
}

// TestMuteLaneIsNotForgotten: while a lane's queue does not answer in time RabbitMQ says that it is empty. What
// is in it is taken back all the same, when there is room.
func TestMuteLaneIsNotForgotten(t *testing.T) {
	inRig(t, laned, func(r *rig) {
		w := r.worker("a1", false)
		r.floods(8)
		r.broker.SetMute("task.lane.research", true)
		r.pass(time.Minute)
		w.report(w.has()...)
		r.broker.SetMute("task.lane.research", false)
		if done := w.worksOff(); len(done) != 8 {
			t.Errorf("%d tasks were done, want 8: %v; the lane has %d", len(done), done,
				len(r.broker.Messages("task.lane.research")))
		}
		r.empty("task.lane.research")
	})
}

// TestOthersAreSeenBehindAFlood: a task of another group, of the same weight and priority, that
// stands behind 50 of a flood is seen, and dispatched after the one that is going and one more
// of the flood at most: its group has had nothing yet. That is so where the groups have lanes
// of their own, and where both share one.
func TestOthersAreSeenBehindAFlood(t *testing.T) {
	q, err := quotas.Parse([]byte("groups: [{id: research}, {id: other-team}]"), "quotas.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, lanes := range []string{"", ", lanes: [research]", ", lanes: []"} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, strings.Replace(laned, ", lanes: [research]", lanes, 1))
			r.service.controls.Under(r.service.config.Load().WithQuotas(q))
			r.start()
			defer r.close()
			w := r.worker("a1", false)
			r.floods(50)
			r.task("other", "build", `,"group":"other-team"`)
			var done []string
			for range 3 {
				done = append(done, w.has()...)
				w.finish("succeeded", "")
			}
			if !slices.Contains(done, "other") {
				t.Errorf("lanes %q: done are %v", lanes, done)
			}
			if all := w.worksOff(); len(all)+len(done) != 51 {
				t.Errorf("lanes %q: %d done, want 51", lanes, len(all)+len(done))
			}
		})
	}
}

// TestLaneSurvivesASession: what is in a lane, or held out of it, when a session ends is
// dispatched once.
func TestLaneSurvivesASession(t *testing.T) {
	inRig(t, laned, func(r *rig) {
		w := r.worker("a1", false)
		r.floods(12)
		for range 4 {
			w.finish("succeeded", "")
		}
		r.broker.Cut()
		r.pass(time.Minute)
		r.connect()
		again := r.worker("a1", false)
		done := again.worksOff()
		for _, m := range r.in(bus.QueueFailed) {
			done = append(done, m.text("task_id")) // the one that the agent had in hand, which was cut off as well
		}
		slices.Sort(done)
		if want := []string{"t10", "t11", "t4", "t5", "t6", "t7", "t8", "t9"}; !slices.Equal(done, want) {
			t.Errorf("after the session %v, want %v", done, want)
		}
		r.empty("task.lane.research")
		r.empty(bus.QueueAssign)
	})
}

// TestOrphanedLane: a group that has left the configuration has its lane emptied, and then
// there is no queue of that name any more.
func TestOrphanedLane(t *testing.T) {
	inRig(t, laned, func(r *rig) {
		w := r.worker("a1", false)
		r.floods(10)
		if n := len(r.broker.Messages("task.lane.research")); n == 0 {
			t.Fatal("nothing is in the lane")
		}
		r.service.Reload(parseConfig(t, strings.Replace(laned, "[research]", "[]", 1)), nil)
		if done := w.worksOff(); len(done) != 10 {
			t.Fatalf("%d done: %v", len(done), done)
		}
		for range 60 {
			r.pass(time.Second)
			w.report()
		}
		if r.broker.Messages("task.lane.research") != nil || !strings.Contains(r.log.String(), "its queue is deleted") {
			t.Errorf("the queue of the lane is still there; log:\n%s", r.log)
		}
	})
}

// TestLaneOfAGroupThatIsBack: the journal was deleted, and the next leader did not have the group, so that
// nothing knew of its lane. A leader that starts with the group finds what lies there.
func TestLaneOfAGroupThatIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r *rig
		term := func(agentsYAML string, during func()) {
			next := newRig(t, agentsYAML)
			if r != nil {
				next.broker, next.service.options.Bus = r.broker, r.broker
			}
			r = next
			r.start()
			during()
			r.close()
		}
		term(laned, func() {
			r.worker("a1", false)
			r.floods(10)
			r.pass(time.Minute)
		})
		r.broker.DeleteQueue(bus.StreamJournal)
		lies := len(r.broker.Messages("task.lane.research"))
		term(strings.Replace(laned, "[research]", "[]", 1), func() {
			r.worker("a1", false).worksOff()
			r.pass(time.Minute)
		})
		if left := len(r.broker.Messages("task.lane.research")); left != lies || lies == 0 {
			t.Fatalf("%d tasks lay in the lane, and %d do: this shows nothing", lies, left)
		}
		term(laned, func() {
			if done := r.worker("a1", false).worksOff(); len(done) != lies {
				t.Errorf("done are %v, want the %d of the lane", done, lies)
			}
			r.empty("task.lane.research")
		})
	})
}

// TestLaneWithoutAQueue: where the queue of a lane is not to be had, tasks wait in the window
// as ever.
func TestLaneWithoutAQueue(t *testing.T) {
	inRig(t, laned, func(r *rig) {
		r.broker.SetConfirm(func(p bus.Publication) membus.Reply {
			if bus.LaneOf(p.Key) != "" {
				return membus.Nack
			}
			return membus.Answer
		})
		w := r.worker("a1", false)
		r.floods(8)
		if done := w.worksOff(); len(done) != 8 {
			t.Errorf("done: %v", done)
		}
	})
}

// TestStatusSaysThatLanesAreOff: where they cannot be, although they are asked for.
func TestStatusSaysThatLanesAreOff(t *testing.T) {
	inRig(t, laned+"queues: classic\n", func(r *rig) {
		findings := fmt.Sprint(r.status().Broker.Findings)
		if !strings.Contains(findings, "lanes are off") || !strings.Contains(findings, "3600 counts as 1680") {
			t.Errorf("findings: %s", findings)
		}
	})
}

// TestRecordingWithLanesReplays: what was recorded of a term with lanes decides the same
// once more: what is moved, when, and where to.
func TestRecordingWithLanesReplays(t *testing.T) {
	inRig(t, laned+"journal: {record_inputs: true}\n", func(r *rig) {
		w := r.worker("a1", false)
		r.floods(15)
		r.cancel("t12", "")
		r.pass(2 * time.Minute) // what waits is moved to the end of the lane
		w.report(w.has()...)
		w.worksOff()
		r.pass(time.Minute)
		r.replays(14)
	})
}

// beside is a fleet whose group has tasks of two kinds: the second gets a lane beside the first's.
var beside = strings.NewReplacer("capabilities: [go],", "capabilities: [go, rust],",
	"task_routing: {", "task_routing: {deploy: {required_capabilities: [rust]}, ").Replace(laned)

// TestNothingIsLostWithALane: a lane is empty, and its queue is looked at and about to be deleted
// when more of its kind comes.
func TestNothingIsLostWithALane(t *testing.T) {
	inRig(t, beside, func(r *rig) {
		w := r.worker("a1", false)
		comes := func(name string, n int) {
			for i := range n {
				r.task(fmt.Sprint(name, i), "deploy", `,"group":"research"`)
			}
		}
		r.floods(8)
		comes("u", 30)
		const lane = "task.lane.research~2"
		if n := len(r.broker.Messages(lane)); n == 0 {
			t.Fatal("nothing is in the lane beside")
		}
		w.worksOff()
		looked, goOn := make(chan struct{}), make(chan struct{})
		r.broker.SetBetween(func(step string) {
			if step == "drop "+lane {
				close(looked)
				<-goOn
			}
		})
		for dropping := false; !dropping; {
			r.pass(time.Second)
			w.report(w.has()...)
			select {
			case <-looked:
				dropping = true
			default:
			}
		}
		comes("v", 12)
		close(goOn)
		r.broker.SetBetween(nil)
		r.pass(time.Second)
		if done := w.worksOff(); len(done) != 12 {
			t.Errorf("of 12 tasks %d are done: %v; log:\n%s", len(done), done, r.log)
		}
	})
}

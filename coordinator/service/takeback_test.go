package service

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/messages"
	"taskbus/schemas"
	"taskbus/tests/support/membus"
)

// wide is a fleet of agents with room for several tasks each.
const wide = `
agents:
  a1: {capabilities: [go], max_concurrent_tasks: 4, health_check_interval: 5}
  a2: {capabilities: [go], max_concurrent_tasks: 4, health_check_interval: 5}
task_routing:
  build: {required_capabilities: [go]}
`

// What waits in the queue of an agent that says goodbye goes to another at once,
// and was never tried there: it is the first attempt that counts.
func TestReadyTasksOfAnOfflineAgentAreTakenBack(t *testing.T) {
	inRig(t, wide, func(r *rig) {
		r.reportTasks("a1") // it never fetches anything
		for i := range 3 {
			r.task(fmt.Sprint("t-", i), "build", "")
		}
		if n := len(r.in("agent.a1")); n != 3 {
			t.Fatalf("a1 has %d, want 3", n)
		}
		a2 := r.worker("a2", true)
		r.offline("a1")
		r.pass(2 * time.Second)
		got := a2.has()
		slices.Sort(got)
		if fmt.Sprint(got) != "[t-0 t-1 t-2]" {
			t.Errorf("a2 has %v, want all three", got)
		}
		for _, d := range a2.held {
			if strings.Contains(messages.TextHeader(d.Headers, messages.HeaderTried), `"a1"`) {
				t.Errorf("%s carries %v: a1 never had it in hand", d.MessageID, d.Headers)
			}
		}
		r.empty("agent.a1")
		c := r.status().Counters
		if c.TakenBack != 3 || c.Returned != 3 || c.Dispatched != 6 {
			t.Errorf("%d taken back, %d returned, %d dispatched; want 3, 3, 6", c.TakenBack, c.Returned, c.Dispatched)
		}
	})
}

// When it is back it has its queue for itself again.
func TestTakingBackEndsWhenTheAgentIsBack(t *testing.T) {
	inRig(t, wide, func(r *rig) {
		r.reportTasks("a1")
		r.task("t-1", "build", "")
		r.offline("a1")
		r.pass(time.Second)
		if n := r.broker.Unacked("agent.a1"); n != 1 {
			t.Fatalf("%d taken back, want 1", n)
		}
		a1 := r.worker("a1", true)
		r.pass(2 * time.Second)
		if got := fmt.Sprint(a1.has()); got != "[t-1]" {
			t.Fatalf("a1 has %s, want its task again", got)
		}
		if d, err := r.outside.Depth(context.Background(), "agent.a1"); err != nil || d.Consumers != 1 {
			t.Errorf("agent.a1 has %d consumers (%v), want its own alone", d.Consumers, err)
		}
		a1.finish("succeeded", "")
	})
}

// The consumer of an agent that has work goes, and nothing else is heard: within
// two seconds its work is with others.
func TestAgentWhoseConsumerIsGone(t *testing.T) {
	inRig(t, wide, func(r *rig) {
		a1 := r.worker("a1", true)
		r.task("held", "build", "")
		r.pass(1500 * time.Millisecond) // it has been seen with its consumer
		a2 := r.worker("a2", true)
		a1.vanish() // the broker has "held" again, as redelivered
		r.pass(2 * time.Second)
		if st := r.agent("a1").State; st != "gone" {
			t.Errorf("a1 is %s, want gone", st)
		}
		if got := fmt.Sprint(a2.has()); got != "[held]" {
			t.Errorf("a2 has %s, want the task that a1 held; log:\n%s", got, r.log)
		}
		if d := a2.held[0]; attemptID(d.MessageID) != "held.2" ||
			!strings.Contains(messages.TextHeader(d.Headers, messages.HeaderTried),
				`"a1"`) {
			t.Errorf("dispatch %s with %v, want a second attempt: a1 had it in hand", d.MessageID, d.Headers)
		}
	})
}

// Our own consumer is not the agent's: taking back must not look like its return.
func TestOwnConsumerIsNotCounted(t *testing.T) {
	inRig(t, wide, func(r *rig) {
		a1 := r.worker("a1", true)
		r.task("t-1", "build", "")
		r.pass(1500 * time.Millisecond)
		a1.vanish()
		for range 10 {
			r.pass(time.Second)
			r.reportTasks("a1", "t-1") // its process lives and has lost its connection
		}
		if n := strings.Count(r.log.String(), `"message":"taking back`); n == 0 {
			t.Error("nothing was taken back: the test tests nothing")
		}
		if n := strings.Count(r.log.String(), `"message":"agent is online"`); n != 1 {
			t.Errorf("a1 came %d times, want once: it has not been back", n)
		}
	})
}

// A queue that is deleted while we take back ends the taking back, not the session.
func TestQueueDeletedWhileTakingBack(t *testing.T) {
	inRig(t, wide, func(r *rig) {
		r.reportTasks("a1")
		r.task("t-1", "build", "")
		r.offline("a1")
		sessions := r.service.sessions.Load()
		r.broker.DeleteQueue("agent.a1")
		r.pass(time.Second)
		if turn := r.service.current.Load().takeBacks.Turn("agent.a1"); turn != 4 { // two to begin, two to end
			t.Errorf("still taking back (turn %d) from a queue that is gone", turn)
		}
		a2 := r.worker("a2", true)
		if got := fmt.Sprint(a2.has()); got != "[t-1]" { // its copy is with us
			t.Errorf("a2 has %s", got)
		}
		// The queue is there again, and another program puts something into it: that is
		// taken back as before.
		if exists, err := r.service.current.Load().bus.EnsureQueue(context.Background(),
			bus.AgentQueue(bus.ProfileQuorum, "agent.a1")); !exists || err != nil {
			t.Fatal(err)
		}
		r.publish("agent.a1", "foreign")
		r.pass(6 * time.Second) // an agent without work is looked at every 5 s
		if m := r.only(bus.QueueDead); string(m.Body) != "foreign" || m.Headers[messages.HeaderSourceQueue] != "agent.a1" {
			t.Errorf("parked %s with %v", m.Body, m.Headers)
		}
		if n := r.service.sessions.Load(); n != sessions {
			t.Error("the session ended with the queue")
		}
	})
}

// The queue of an agent that has work is deleted: the agent counts as gone, and
// its queue is made anew, or it could never come back.
func TestWatchedQueueIsDeleted(t *testing.T) {
	inRig(t, wide, func(r *rig) {
		a1 := r.worker("a1", true)
		r.task("t-1", "build", "")
		r.pass(1500 * time.Millisecond)
		if len(a1.has()) != 1 {
			t.Fatal("a1 did not get its task")
		}
		r.broker.DeleteQueue("agent.a1") // which ends the agent's session, too
		r.pass(2 * time.Second)
		if st := r.agent("a1").State; st != "gone" {
			t.Errorf("a1 is %s, want gone", st)
		}
		again := r.worker("a1", true)
		r.pass(6 * time.Second) // a queue that was asked for is asked for again after 5 s
		r.task("t-2", "build", "")
		if got := fmt.Sprint(again.has()); got != "[t-2]" {
			t.Errorf("a1 has %s after its return, want t-2; log:\n%s", got, r.log)
		}
	})
}

// A coordinator that is drained takes nothing back any more, and what it held is
// the broker's again.
func TestTakingBackStopsAtTheDrain(t *testing.T) {
	inRig(t, wide, func(r *rig) {
		r.reportTasks("a1")
		r.task("t-1", "build", `,"excluded_agents":["a2"]`)
		r.offline("a1")
		if n := r.broker.Unacked("agent.a1"); n != 1 {
			t.Fatalf("%d taken back, want 1", n)
		}
		r.reportTasks("a2")
		r.broker.SetConfirm(func(p bus.Publication) membus.Reply {
			if p.Type == schemas.TaskDispatch {
				return membus.Withhold
			}
			return membus.Answer
		})
		r.task("in-flight", "build", "") // keeps the drain waiting
		r.stop()
		synctest.Wait()
		r.publish("agent.a1", `{"after":1}`)
		if got := r.in("agent.a1"); len(got) != 1 || string(got[0].Body) != `{"after":1}` {
			t.Errorf("ready in a1's queue: %d messages, want what came after the drain began", len(got))
		}
		r.broker.SetConfirm(nil)
		r.broker.ReleaseConfirms()
		if err := <-r.finished; err != nil {
			t.Fatal(err)
		}
		r.finished <- nil
		if got := r.in("agent.a1"); len(got) != 2 {
			t.Errorf("a1's queue holds %d messages, want both", len(got))
		}
	})
}

// An operator drains an agent: it keeps what it runs, what waits in its queue
// goes elsewhere, and it is told drained when nothing is left.
func TestDrainingAnAgent(t *testing.T) {
	inRig(t, wide, func(r *rig) {
		a1 := r.consumerOf("a1", 1) // takes one at a time
		a1.report()
		r.task("running", "build", "")
		r.task("waiting", "build", "")
		a1.report("running")
		a2 := r.worker("a2", true)
		if a, err := r.service.Order(context.Background(), "a1", orderDrain); err != nil || !a.Draining || !a.Cordoned ||
			a.Eligible || a.Drained {
			t.Fatalf("drain: %+v, %v", a, err)
		}
		r.pass(3 * time.Second)
		if got := fmt.Sprint(a1.has(), a2.has()); got != "[running] [waiting]" {
			t.Errorf("a1 and a2 have %s", got)
		}
		r.task("new", "build", "")
		if got := fmt.Sprint(a2.has()); got != "[waiting new]" {
			t.Errorf("a2 has %s, want the new task: a1 gets none", got)
		}
		a1.finish("succeeded", "")
		a1.report()
		r.pass(2 * time.Second)
		if a := r.agent("a1"); !a.Drained {
			t.Errorf("nothing is left with a1: %+v", a)
		}
		if a, err := r.service.Order(context.Background(), "a1", orderUncordon); err != nil || a.Cordoned || a.Draining ||
			!a.Eligible {
			t.Errorf("uncordon: %+v, %v", a, err)
		}
	})
}

func TestOrders(t *testing.T) {
	inRig(t, wide, func(r *rig) {
		r.reportTasks("a1")
		if _, err := r.service.Order(context.Background(), "nobody", orderCordon); !isNoAgent(err) {
			t.Errorf("an order for an agent that is not known: %v", err)
		}
		if a, err := r.service.Order(context.Background(), "a1", orderCordon); err != nil || !a.Cordoned || a.Draining ||
			a.WhyNot != "cordoned" {
			t.Errorf("cordon: %+v, %v", a, err)
		}
		// It outlives the session, but a coordinator that does not lead takes none.
		r.broker.SetOpenError(bus.ErrAccess)
		r.broker.Cut()
		synctest.Wait()
		if a, err := r.service.Order(context.Background(), "a2", orderCordon); err == nil || isNoAgent(err) {
			t.Errorf("cordon without a session: %+v, %v", a, err)
		}
		r.broker.SetOpenError(nil)
		r.pass(backoffMax + time.Second)
		r.connect()
		if !r.agent("a1").Cordoned || r.agent("a2").Cordoned {
			t.Error("an order was lost with the session, or one that was refused was carried out")
		}
	})
}

// 500 agents vanish at once with a task ready in each queue. All of it is with the
// others within five seconds of the moment they are known to be gone.
func TestFiveHundredAgentsVanish(t *testing.T) {
	const many = 500
	var yaml strings.Builder
	yaml.WriteString("agents:\n  safe: {capabilities: [go], max_concurrent_tasks: 1000}\n")
	for i := range many {
		fmt.Fprintf(&yaml, "  v%d: {capabilities: [go], max_concurrent_tasks: 1}\n", i)
	}
	yaml.WriteString(
		"task_routing:\n  build: {required_capabilities: [go]}\nglobal_settings: {stale_agent_threshold_seconds: 40}\n")
	inRig(t, yaml.String(), func(r *rig) {
		for i := range many {
			r.reportTasks(fmt.Sprint("v", i))
		}
		for i := range many {
			r.task(fmt.Sprint("t-", i), "build", "")
		}
		if n := r.status().Counters.Dispatched; n != many {
			t.Fatalf("%d dispatched, want %d", n, many)
		}
		r.pass(30 * time.Second)
		safe := r.consumerOf("safe", many)
		r.publish(bus.StreamStatus, fmt.Sprintf(
			`{"message_type":"agent.status","agent_id":"safe","status":"ready","current_load":0,"active_tasks":0,`+
				`"available_capacity":1000,"timestamp":%q,"active_task_ids":[]}`,
			time.Now().Format(time.RFC3339Nano)))
		r.pass(15 * time.Second) // 40 s of silence, and five; the dispatches expire after 60 s
		if n := len(safe.has()); n != many {
			t.Errorf("%d of %d tasks are with the agent that is left", n, many)
		}
		if c := r.status().Counters; c.TakenBack != many || c.Failed != 0 {
			t.Errorf("%d taken back, %d failed; want %d and none", c.TakenBack, c.Failed, many)
		}
	})
}

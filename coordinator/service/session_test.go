package service

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/view"
	"taskbus/tests/support/membus"
)

func TestReloadTakesEffectAndABrokenFileDoesNot(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		r.task("t-1", "paint", "") // unknown as yet
		old := r.status().Config.Version

		r.service.Reload(nil, errors.New("agents.yaml:3:5: agents.a1.max_concurrent_tasks: must be at least 1"))
		st := r.status()
		if st.Config.LastReloadOK || st.Config.Version != old ||
			!strings.Contains(st.Config.LastReloadError, "agents.yaml:3:5") {
			t.Errorf("after a broken file: %+v", st.Config)
		}
		r.service.Reload(parseConfig(t, strings.Replace(fleet, "task_routing:\n",
			"  a3: {capabilities: [brush], max_concurrent_tasks: 1, health_check_interval: 5}\ntask_routing:\n  paint: "+
				"{required_capabilities: [brush]}\n", 1)), nil)
		synctest.Wait()
		if st := r.status(); !st.Config.LastReloadOK || st.Config.Version == old {
			t.Errorf("after a good file: %+v", st.Config)
		}
		r.heartbeat("a3", 0)
		r.task("t-2", "paint", "")
		if m := r.only("agent.a3"); m.text("task_id") != "t-2" {
			t.Errorf("the new agent got %s", m.Body)
		}
	})
}

// What a process takes from the file that it was started with is named when it is another, as long as it is.
func TestReloadNamesWhatCountsFromTheNextStart(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		for more, want := range map[string]string{
			"": "", "learning: {prior: 0.5}\n": "", // in force
			"journal: {record_inputs: true}\n":              `["journal"]`,
			"journal: {enabled: false}\ntopology: verify\n": `["topology","journal"]`,
			"http: {advertise_url: 'http://c-1:8551'}\n":    `["http"]`,
		} {
			before := len(r.log.String())
			r.service.Reload(parseConfig(t, fleet+more), nil)
			synctest.Wait()
			_, got, _ := strings.Cut(r.log.String()[before:], `"keys":`)
			if got, _, _ = strings.Cut(got, ","+`"message"`); got != want {
				t.Errorf("%q: names %s, want %s", more, got, want)
			}
		}
	})
}

func TestAlarmHoldsUpAndLosesNothing(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		r.broker.Block(true)
		r.pass(pulsePeriod)
		if ready := r.service.Ready(context.Background()); ready.Ready || ready.State != "blocked" {
			t.Errorf("during the alarm: %+v", ready)
		}
		if h := r.service.Health(context.Background()); h.Checks["broker"].Status != view.Degraded {
			t.Errorf("during the alarm: %+v", h.Checks["broker"])
		}
		r.pass(5 * time.Minute)
		r.broker.Block(false)
		synctest.Wait()
		if ready := r.service.Ready(context.Background()); !ready.Ready {
			t.Errorf("after the alarm: %+v", ready)
		}
		if n := r.service.sessions.Load(); n != 1 {
			t.Errorf("%d sessions, want the first to have survived", n)
		}
	})
}

func TestSecondCoordinatorStandsByUntilTheFirstEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newRig(t, fleet)
		first.start()
		second := newRig(t, fleet)
		second.broker = first.broker
		second.service.options.Bus = first.broker
		second.start()
		if ready := second.service.Ready(context.Background()); ready.State != "standby" || ready.Ready {
			t.Errorf("the second while the first runs: %+v", ready)
		}
		if h := second.service.Health(context.Background()); h.Status != view.Healthy {
			t.Errorf("a standby in good order: %+v", h)
		}
		first.close()
		second.pass(2 * time.Second)
		if ready := second.service.Ready(context.Background()); !ready.Ready {
			t.Errorf("the second after the first ended: %+v", ready)
		}
		second.heartbeat("a1", 0)
		second.task("t-1", "build", "")
		second.only("agent.a1")
		second.close()
	})
}

func TestBrokerAwayIsTriedForEverAndSaidSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, fleet)
		r.broker.SetOpenError(bus.ErrAccess)
		r.startAway()
		r.pass(10 * time.Minute)
		st := r.service.Health(context.Background())
		if st.Status != view.Critical || !strings.Contains(st.Checks["broker"].Detail, "refused access") {
			t.Errorf("while the broker refuses: %+v", st)
		}
		// Full jitter under a bound of 15 s: on average at least one try every 15 s,
		// and no storm: at most one every 250 ms even in the beginning.
		if n := r.service.sessions.Load(); n < 20 || n > 2400 {
			t.Errorf("%d tries in ten minutes", n)
		}
		r.broker.SetOpenError(nil)
		r.pass(16 * time.Second)
		if ready := r.service.Ready(context.Background()); !ready.Ready {
			t.Errorf("after it lets in again: %+v", ready)
		}
		r.connect()
		r.close()
	})
}

func (r *rig) startAway() {
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	go func() { r.finished <- r.service.Run(ctx) }()
	synctest.Wait()
}

func TestDrainSettlesWhatIsInFlightAndLeavesTheRest(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		r.broker.SetConfirm(func(p bus.Publication) membus.Reply {
			if p.Type == "task.dispatch" {
				return membus.Withhold
			}
			return membus.Answer
		})
		r.task("in-flight", "build", "")
		r.task("waiting", "build", "")
		r.stop()
		synctest.Wait()
		if r.broker.Unacked(bus.QueueAssign) != 2 {
			t.Fatal("the drain did not wait for the confirm")
		}
		r.task("late", "build", "")
		r.broker.ReleaseConfirms()
		if err := <-r.finished; err != nil {
			t.Fatal(err)
		}
		r.finished <- nil
		var left []string
		for _, m := range r.in(bus.QueueAssign) {
			left = append(left, m.text("task_id"))
		}
		if got := strings.Join(left, " "); got != "waiting late" {
			t.Errorf("left in task.assign: %s, want what was not dispatched", got)
		}
		if n := len(r.in("agent.a1")); n != 1 {
			t.Errorf("a1 has %d messages", n)
		}
	})
}

// A broker that answers nothing any more (a memory alarm) must not keep the
// process beyond its grace.
func TestDrainGivesUpAfterItsGrace(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		r.broker.SetConfirm(func(p bus.Publication) membus.Reply {
			if p.Type == "task.dispatch" {
				return membus.Withhold
			}
			return membus.Answer
		})
		r.task("in-flight", "build", "")
		begun := time.Now()
		r.stop()
		if err := <-r.finished; err != nil {
			t.Fatal(err)
		}
		r.finished <- nil
		// shutdown_grace_seconds is 20, and closing gets closeLeast.
		if took := time.Since(begun); took < 20*time.Second || took > 20*time.Second+2*closeLeast {
			t.Errorf("the drain took %v, want 20 s and a moment", took)
		}
	})
}

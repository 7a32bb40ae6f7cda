package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
)

type job struct {
	Dispatch
	id coordinator.TaskID
}

func (j *job) Try() (coordinator.TaskID, int) { return j.id, 1 }

type worker struct{ Account[*job] }

func (w *worker) Held() int   { return 0 }
func (w *worker) Waits() bool { return false }

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// world is a fleet of agents a000, a001 … with 4 slots each that report every 10 s, in a session that opened at start.
type world struct {
	*Fleet[*job, *worker]
	t   *testing.T
	now time.Time
}

func newWorld(t *testing.T, agents int, settings coordinator.Settings, capabilities ...string) *world {
	f := New[*job, *worker]()
	w := &world{&f, t, start}
	f.SetRules(&coordinator.Policy{})
	specs := make([]coordinator.AgentSpec, agents)
	for i := range specs {
		id := coordinator.AgentID(fmt.Sprintf("a%03d", i))
		specs[i] = coordinator.AgentSpec{ID: id, Queue: "q." + string(id), MaxConcurrent: 4, Capabilities: capabilities,
			HealthCheckInterval: 10 * time.Second}
	}
	settings.MaxLoad = 1
	if settings.StaleAfter == 0 {
		settings.StaleAfter = time.Hour
	}
	f.Adopt(specs, settings, func(*worker) *worker { return &worker{} })
	f.SessionOpened(start, &coordinator.SessionOpened{})
	return w
}

// at sets the time to so many seconds after the start.
func (w *world) at(seconds float64) *world {
	w.now = start.Add(time.Duration(seconds * float64(time.Second)))
	w.Now = w.now
	return w
}

// reports has an agent report, and returns what follows.
func (w *world) reports(agent int, status coordinator.AgentStatus) string {
	m := w.Agents[agent]
	ev := &coordinator.AgentReported{Live: true, Report: coordinator.AgentReport{Agent: m.Spec.ID, Timestamp: w.now,
		Status: status, Available: 4}}
	v := w.Accept(w.now, m, ev)
	return w.text(w.Reported(w.now, m, ev, v.Kind))
}

// seen is a look at an agent's queue.
func (w *world) seen(agent, consumers, ready int) string {
	id := w.Agents[agent].Spec.ID
	return w.text(w.QueueSeen(w.now, coordinator.QueueSeen{Agent: id, Consumers: consumers, Ready: ready}))
}

// text names changes, with times as seconds after the start. That an agent may have room is left out.
func (w *world) text(changes []Change[*worker]) string {
	timers := [NumTimers]string{"silence", "recheck", "cool", "steady", "forget", "slow start"}
	var list []string
	for _, c := range changes {
		switch c.Kind {
		case Emit:
			switch e := c.Effect.(type) {
			case coordinator.AgentChanged:
				list = append(list, fmt.Sprintf("%s is %s", e.Agent, e.State))
			case coordinator.TakeBack:
				list = append(list, "take "+e.Queue)
			case coordinator.LeaveQueue:
				list = append(list, "leave "+e.Queue)
			default:
				list = append(list, strings.TrimPrefix(fmt.Sprintf("%T", e), "coordinator."))
			}
		case Write:
			list = append(list, strings.TrimPrefix(fmt.Sprintf("%T", c.Record), "*coordinator."))
		case SetTimer:
			if c.At.IsZero() {
				list = append(list, "no "+timers[c.Timer])
			} else {
				list = append(list, fmt.Sprintf("%s at %g", timers[c.Timer], c.At.Sub(start).Seconds()))
			}
		case CameOn, WentOff, OffMarket, Joins:
			list = append(list, [...]string{CameOn: "on", WentOff: "off", OffMarket: "off market", Joins: "joins"}[c.Kind])
		}
	}
	return strings.Join(list, ", ")
}

func same(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

package engine

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"taskbus/coordinator"
)

// model is the rules of the engine written down a second time, naively: no
// index, no cache, every question answered by going through everything. It
// learns of dispatches from the engine's effects and judges each of them.
type model struct {
	policy   *coordinator.Policy
	graceEnd time.Time
	agents   map[coordinator.AgentID]*modelAgent // every agent that ever was
	tasks    map[coordinator.Handle]*modelTask   // every delivery that ever was
	fates    map[coordinator.TaskID]modelFate
	sequence uint64    // of dispatches
	ticked   time.Time // when tick was last called with a later time than before
	before   time.Time // the tick before that
}

type modelAgent struct {
	spec       coordinator.AgentSpec
	listed     bool
	heard      time.Time // zero: never
	silent     bool      // went stale
	report     coordinator.AgentReport
	offset     *time.Duration // smallest (arrival − timestamp) of live reports
	open       []openDispatch // the engine's type: an id and when it settled
	assignedAt uint64         // sequence of the latest dispatch
	noQueue    bool
	coolsAt    time.Time
}

// modelTask is a delivery. Exactly one of open, ended and void holds.
type modelTask struct {
	handle            coordinator.Handle
	task              *coordinator.Task
	tried             []coordinator.AgentID
	open, ended, void bool
	live              *coordinator.Dispatch // published and not settled
}

// modelFate is what is known of a task id.
type modelFate struct {
	content uint64
	state   fate
	agent   coordinator.AgentID // of the open decision, when state is fateUnsettled
	attempt int
}

func newModel() *model {
	return &model{
		agents: make(map[coordinator.AgentID]*modelAgent),
		tasks:  make(map[coordinator.Handle]*modelTask),
		fates:  make(map[coordinator.TaskID]modelFate),
	}
}

func (m *model) install(now time.Time, p *coordinator.Policy) {
	m.policy = p
	listed := make(map[coordinator.AgentID]bool)
	for _, spec := range p.Agents {
		listed[spec.ID] = true
		a := m.agents[spec.ID]
		switch {
		case a == nil:
			a = &modelAgent{}
			m.agents[spec.ID] = a
		case !a.listed: // only what is on its way is known of one that comes back
			*a = modelAgent{open: slices.DeleteFunc(a.open, func(d openDispatch) bool { return !d.settled.IsZero() })}
		}
		a.spec, a.listed = spec, true
	}
	for id, a := range m.agents {
		a.listed = listed[id]
	}
	m.tick(now)
}

// tick notes who has been silent for too long.
func (m *model) tick(now time.Time) {
	if now.After(m.ticked) {
		m.before, m.ticked = m.ticked, now
	}
	for _, a := range m.agents {
		if !a.heard.IsZero() && now.Sub(a.heard) >= m.policy.Settings.StaleAfter && !now.Before(m.graceEnd) {
			a.silent = true
		}
	}
}

func (m *model) openSession(now time.Time) {
	longest := time.Duration(0)
	for _, a := range m.agents {
		if a.listed {
			longest = max(longest, a.spec.HealthCheckInterval)
		}
	}
	m.graceEnd = now.Add(longest)
}

// heard applies a heartbeat and reports whether it was accepted.
func (m *model) heard(now time.Time, r coordinator.AgentReport, live bool) bool {
	a := m.agents[r.Agent]
	if a == nil || !a.listed {
		return false
	}
	if !a.heard.IsZero() {
		older, same := r.Timestamp.Before(a.report.Timestamp), r.Timestamp.Equal(a.report.Timestamp)
		switch {
		case !live && (older || same):
			return false
		case older && now.Sub(a.heard) <= 2*a.spec.HealthCheckInterval:
			return false
		case older:
			a.offset = nil
		}
	}
	if d := now.Sub(r.Timestamp); live && (a.offset == nil || d < *a.offset) {
		a.offset = &d
	}
	a.report, a.heard, a.silent = r, now, false
	if a.offset != nil {
		made := r.Timestamp.Add(*a.offset)
		a.open = slices.DeleteFunc(a.open, func(d openDispatch) bool { return !d.settled.IsZero() && d.settled.Before(made) })
	}
	m.tick(now) // a threshold of nothing makes it stale at once
	return true
}

// most is how many tasks the agent may have.
func (a *modelAgent) most() int {
	if a.report.MaxConcurrent > 0 && a.report.MaxConcurrent < a.spec.MaxConcurrent {
		return a.report.MaxConcurrent
	}
	return a.spec.MaxConcurrent
}

// newest is the place of the newest dispatch of this id, -1 when there is none.
func (a *modelAgent) newest(id string) int {
	for i := range a.open {
		if j := len(a.open) - 1 - i; a.open[j].dispatchID == id {
			return j
		}
	}
	return -1
}

func (a *modelAgent) drop(id string) {
	if i := a.newest(id); i >= 0 {
		a.open = append(a.open[:i:i], a.open[i+1:]...)
	}
}

func (a *modelAgent) arrive(id string, now time.Time) {
	if i := a.newest(id); i >= 0 {
		a.open[i].settled = now
	}
}

func (a *modelAgent) outstanding() int { return a.report.Active + len(a.open) }

func (a *modelAgent) load() float64 {
	return min(1, max(a.report.Load, float64(a.outstanding())/float64(a.most())))
}

// refusal says why the agent may not have the task now, "" when it may.
func (m *model) refusal(now time.Time, a *modelAgent, t *modelTask) string {
	has := func(c string) bool { return slices.Contains(a.spec.Capabilities, c) }
	for _, c := range slices.Concat(m.policy.Routes[t.task.Type].Required, t.task.Required) {
		if !has(c) {
			return "lacks " + c
		}
	}
	s := m.policy.Settings
	switch {
	case !a.listed:
		return "not in the fleet"
	case slices.Contains(t.task.Excluded, a.spec.ID):
		return "excluded"
	case slices.Contains(t.tried, a.spec.ID):
		return "had it before"
	case a.heard.IsZero():
		return "never seen"
	case a.report.Status == coordinator.StatusOffline:
		return "offline"
	case a.silent:
		return "stale"
	case a.report.Status == coordinator.StatusBusy && !s.BusyIsEligible:
		return "busy"
	case a.outstanding() >= a.most():
		return "full"
	case a.report.Available-len(a.open) < 1:
		return "no available capacity"
	case a.report.Load >= s.MaxLoad:
		return "overloaded"
	case a.noQueue:
		return "no queue"
	case now.Before(a.coolsAt):
		return "queue full"
	}
	return ""
}

// rank is accepted_at minus priority × ageing: the smaller goes first.
func (m *model) rank(t *modelTask) time.Time {
	return t.task.AcceptedAt.Add(-time.Duration(t.task.Priority) * m.policy.Settings.PriorityAgeing)
}

// first reports whether waiting task a goes before b.
func (m *model) first(a, b *modelTask) bool {
	if x, y := m.rank(a), m.rank(b); !x.Equal(y) {
		return x.Before(y)
	}
	return a.handle < b.handle
}

// key is the order in which the task's strategy prefers agents, ties included,
// as COORDINATOR writes it.
func (m *model) key(t *modelTask, a *modelAgent) [3]float64 {
	name := m.policy.Strategy
	if s := m.policy.Routes[t.task.Type].Strategy; s != "" {
		name = s
	}
	if t.task.Strategy != "" {
		name = t.task.Strategy
	}
	turn := float64(a.assignedAt)
	switch {
	case name == "round_robin":
		return [3]float64{turn}
	case name == "capability_match":
		return [3]float64{a.load(), -float64(len(a.spec.Capabilities)), turn}
	case name == "priority_based" && t.task.Priority >= coordinator.PriorityHigh:
		return [3]float64{float64(a.spec.Rank), a.load(), turn}
	}
	return [3]float64{a.load(), 0, turn}
}

// best is the agent the task should go to, nil when nobody may have it.
func (m *model) best(now time.Time, t *modelTask) *modelAgent {
	preferred := m.policy.Routes[t.task.Type].Preferred
	if len(t.task.Preferred) > 0 {
		preferred = t.task.Preferred
	}
	pick := func(among func(coordinator.AgentID) bool) *modelAgent {
		var best *modelAgent
		for _, id := range slices.Sorted(maps.Keys(m.agents)) {
			a := m.agents[id]
			if !among(id) || m.refusal(now, a, t) != "" {
				continue
			}
			if best == nil || slices.Compare(arr(m.key(t, a)), arr(m.key(t, best))) < 0 {
				best = a
			}
		}
		return best
	}
	if a := pick(func(id coordinator.AgentID) bool { return slices.Contains(preferred, id) }); a != nil {
		return a
	}
	return pick(func(coordinator.AgentID) bool { return true })
}

func arr(k [3]float64) []float64 { return k[:] }

// end notes that a delivery was acknowledged or failed.
func (m *model) end(h coordinator.Handle) error {
	t := m.tasks[h]
	if t == nil || !t.open {
		return fmt.Errorf("handle %d was ended, but it is not open", h)
	}
	if t.live != nil {
		return fmt.Errorf("handle %d was ended while its dispatch %s is not settled", h, t.live.DispatchID)
	}
	t.open, t.ended = false, true
	return nil
}

// dispatched judges a dispatch and counts it. resumed: it repeats an open decision.
func (m *model) dispatched(now time.Time, d *coordinator.Dispatch, resumed bool) error {
	t, a := m.tasks[d.Handle], m.agents[d.Agent]
	if t == nil || !t.open || t.live != nil {
		return fmt.Errorf("handle %d cannot be dispatched: not open or dispatched already", d.Handle)
	}
	for _, other := range m.tasks {
		if other.live != nil && other.task.ID == t.task.ID {
			return fmt.Errorf("second live dispatch of %s", t.task.ID)
		}
	}
	if resumed {
		a.drop(d.DispatchID) // it is the same message again
	}
	why := m.refusal(now, a, t)
	if resumed {
		switch why { // it has its slot already: only who is gone, or may not have it, is not asked again
		case "busy", "full", "no available capacity", "overloaded", "queue full":
			why = ""
			if a.noQueue {
				why = "no queue"
			}
		}
	}
	if why != "" {
		return fmt.Errorf("%s went to %s, which is not eligible: %s", t.task.ID, d.Agent, why)
	}
	if !t.task.Deadline.IsZero() && !now.Before(t.task.Deadline) {
		return fmt.Errorf("%s was dispatched after its deadline", t.task.ID)
	}
	// Agents that cool down in the same tick do so one after the other, and the
	// work goes to the first: the better one may come a moment too late.
	if best := m.best(now, t); !resumed && best != a && !best.coolsAt.After(m.before) {
		return fmt.Errorf("%s went to %s, the strategy's choice is %s", t.task.ID, d.Agent, best.spec.ID)
	}
	if d.DispatchID != coordinator.DispatchID(t.task.ID, d.Attempt) {
		return fmt.Errorf("dispatch id %s does not name attempt %d of %s", d.DispatchID, d.Attempt, t.task.ID)
	}
	m.sequence++
	a.assignedAt = m.sequence
	a.open = append(a.open, openDispatch{dispatchID: d.DispatchID})
	t.live = d
	return nil
}

// settled applies the outcome of a dispatch.
func (m *model) settled(now time.Time, t *modelTask, o coordinator.PublishOutcome) {
	d, a := t.live, m.agents[t.live.Agent]
	t.live = nil
	switch o {
	case coordinator.PublishConfirmed:
		a.arrive(d.DispatchID, now)
		m.fates[t.task.ID] = modelFate{t.task.ContentHash, fateDispatched, d.Agent, d.Attempt}
		return
	case coordinator.PublishUnknown:
		t.open, t.void = false, true
		m.leftOpen(now, t, d)
		return
	case coordinator.PublishUnroutable:
		a.noQueue = a.listed
	case coordinator.PublishRejected:
		if a.listed {
			a.coolsAt = now.Add(queueCool)
		}
	}
	a.drop(d.DispatchID)
}

// leftOpen notes a dispatch whose answer never came.
func (m *model) leftOpen(now time.Time, t *modelTask, d *coordinator.Dispatch) {
	m.agents[d.Agent].arrive(d.DispatchID, now)
	m.fates[t.task.ID] = modelFate{t.task.ContentHash, fateUnsettled, d.Agent, d.Attempt}
}

// loseSession voids every open delivery and gives them in order.
func (m *model) loseSession(now time.Time) []*modelTask {
	var lost []*modelTask
	for _, h := range slices.Sorted(maps.Keys(m.tasks)) {
		t := m.tasks[h]
		if !t.open {
			continue
		}
		t.open, t.void = false, true
		lost = append(lost, t)
		if t.live != nil {
			m.leftOpen(now, t, t.live)
			t.live = nil
		} else {
			delete(m.fates, t.task.ID)
		}
	}
	return lost
}

// learnTried takes over who had the task before; the engine may add the agent of
// an open decision, but never forget one.
func (t *modelTask) learnTried(tried []coordinator.AgentID) error {
	for _, id := range t.tried {
		if !slices.Contains(tried, id) {
			return fmt.Errorf("%s: that %s had it before was forgotten", t.task.ID, id)
		}
	}
	t.tried = slices.Clone(tried)
	return nil
}

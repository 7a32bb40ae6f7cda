package engine

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"taskbus/coordinator"
)

// model is the rules of choice and of slots written down a second time, naively:
// no index, no cache, every question answered by going through everything. It
// learns of dispatches from the engine's effects and judges each of them. What
// becomes of tasks is the ledger's business.
type model struct {
	policy   *coordinator.Policy
	graceEnd time.Time
	agents   map[coordinator.AgentID]*modelAgent // every agent that ever was
	orders   map[coordinator.AgentID]coordinator.Order
	returned *modelSlot // of the return that is being applied, nil otherwise
	sequence uint64     // of dispatches
	ticked   time.Time  // when tick was last called with a later time than before
	before   time.Time  // the tick before that

	ejectedBefore, ejected ejections // before and after the event being applied
	engine                 *Engine   // asked for what the model has no rules of its own for
}

type modelAgent struct {
	spec       coordinator.AgentSpec
	listed     bool
	state      coordinator.AgentState
	heard      time.Time // zero: never
	report     coordinator.AgentReport
	offset     *time.Duration // smallest (arrival − timestamp) of live reports
	slots      []*modelSlot   // dispatches that count against it
	ends       []modelEnd     // ends it has told since its latest report
	assignedAt uint64         // sequence of the latest dispatch
	noQueue    bool
	coolsAt    time.Time

	hadConsumer, seenConsumer bool
	missedAt                  time.Time
	departures                []time.Time // the latest, each less than flapMemory after the one before
	steadyAt                  time.Time
}

// modelSlot is a dispatch that counts against its agent: on top of what the agent
// reports, until a report speaks for it.
type modelSlot struct {
	id      string
	task    coordinator.TaskID
	settled time.Time // zero: on its way
	covered bool
	over    bool // it has ended otherwise; only the agent's reports can free the slot
}

// modelEnd is an end that an agent has told; counted: its latest report still
// counts the task as active.
type modelEnd struct {
	task           coordinator.TaskID
	stamp, settled time.Time
	counted        bool
}

func newModel() *model {
	return &model{agents: make(map[coordinator.AgentID]*modelAgent), orders: make(map[coordinator.AgentID]coordinator.Order)}
}

func (m *model) install(now time.Time, p *coordinator.Policy) {
	m.policy = p
	was := make(map[coordinator.AgentID]bool)
	for id, a := range m.agents {
		was[id], a.listed = a.listed, false
	}
	for _, spec := range p.Agents {
		a := m.agents[spec.ID]
		switch {
		case a == nil:
			a = &modelAgent{}
			m.agents[spec.ID] = a
		case !was[spec.ID]: // only what counts against it is known of one that comes back
			*a = modelAgent{slots: a.slots}
		case a.spec.Queue != spec.Queue:
			a.noQueue, a.coolsAt, a.hadConsumer, a.seenConsumer, a.missedAt = false, time.Time{}, false, false, time.Time{}
		}
		a.spec, a.listed = spec, true
	}
	for _, a := range m.agents {
		if !a.listed {
			a.slots = slices.DeleteFunc(a.slots, func(s *modelSlot) bool { return s.over && !s.settled.IsZero() })
		}
	}
	m.tick(now)
}

// tick notes who has been silent for too long.
func (m *model) tick(now time.Time) {
	if now.After(m.ticked) {
		m.before, m.ticked = m.ticked, now
	}
	for _, a := range m.agents {
		if a.listed && a.state == coordinator.AgentOnline && now.Sub(a.heard) >= m.policy.Settings.StaleAfter && !now.Before(m.graceEnd) {
			a.enter(now, coordinator.AgentStale)
		}
	}
}

// enter moves the agent to a state. From its third departure in a row on it is
// held to be unsteady, for 1, 2, 4, … at most 30 s.
func (a *modelAgent) enter(now time.Time, s coordinator.AgentState) {
	if a.state == coordinator.AgentOnline && s != a.state {
		if n := len(a.departures); n > 0 && now.Sub(a.departures[n-1]) > flapMemory {
			a.departures = nil
		}
		a.departures = append(a.departures, now)
		if n := len(a.departures); n >= 3 {
			a.steadyAt = now.Add(min(30*time.Second, time.Second<<min(n-3, 10)))
		}
	}
	a.state = s
	if a.away() {
		a.slots = slices.DeleteFunc(a.slots, func(s *modelSlot) bool { return s.over && !s.settled.IsZero() })
	}
}

// away: it is known not to be there.
func (a *modelAgent) away() bool {
	return a.state != coordinator.AgentOnline && a.state != coordinator.AgentNeverSeen
}

func (m *model) openSession(now time.Time) {
	longest := time.Duration(0)
	for _, a := range m.agents {
		if a.listed {
			longest = max(longest, a.spec.HealthCheckInterval)
		}
	}
	m.graceEnd = now.Add(longest)
	for _, a := range m.agents {
		a.seenConsumer, a.missedAt = false, time.Time{}
	}
}

// heard applies a heartbeat, if it is to be accepted.
func (m *model) heard(now time.Time, r coordinator.AgentReport, live bool) {
	a := m.agents[r.Agent]
	if a == nil || !a.listed {
		return
	}
	if !a.heard.IsZero() {
		older, same := r.Timestamp.Before(a.report.Timestamp), r.Timestamp.Equal(a.report.Timestamp)
		switch {
		case !live && (older || same):
			return
		case older && now.Sub(a.heard) <= 2*a.spec.HealthCheckInterval:
			return
		case older:
			a.offset = nil
		}
	}
	if d := now.Sub(r.Timestamp); live && (a.offset == nil || d < *a.offset) {
		a.offset = &d
	}
	a.report, a.heard = r, now
	a.audit()
	switch {
	case r.Status == coordinator.StatusOffline:
		a.hadConsumer, a.seenConsumer = false, false
		a.enter(now, coordinator.AgentOffline)
	case a.state != coordinator.AgentGone:
		a.enter(now, coordinator.AgentOnline)
	}
	m.tick(now) // a threshold of nothing makes it stale at once
}

// audit says what the newest report speaks for.
func (a *modelAgent) audit() {
	exact := a.report.ActiveTasks != nil
	knows := func(settled time.Time) bool { // of a dispatch that was there before it was made
		return a.offset != nil && settled.Before(a.report.Timestamp.Add(*a.offset))
	}
	a.slots = slices.DeleteFunc(a.slots, func(s *modelSlot) bool {
		listed, arrived := slices.Contains(a.report.ActiveTasks, s.task), !s.settled.IsZero() && knows(s.settled)
		s.covered = s.covered || exact && listed || !exact && arrived
		return s.over && !s.settled.IsZero() && (arrived || exact && listed)
	})
	a.ends = slices.DeleteFunc(a.ends, func(e modelEnd) bool { return e.stamp.Before(a.report.Timestamp) })
	for i := range a.ends {
		e := &a.ends[i]
		e.counted = exact && slices.Contains(a.report.ActiveTasks, e.task) || !exact && knows(e.settled)
	}
}

// told takes note of an end that the agent has told. slot: the dispatch counts
// against it; letGo: it did, until a report spoke for it and nobody expected a
// result. Otherwise it is of a dispatch that has gone to somebody else.
func (a *modelAgent) told(now time.Time, r *coordinator.Result, slot *modelSlot, letGo bool) {
	exact, listed := a.report.ActiveTasks != nil, slices.Contains(a.report.ActiveTasks, r.Task)
	end := modelEnd{task: r.Task, stamp: r.Timestamp}
	if a.offset != nil && end.stamp.After(now.Add(-*a.offset)) {
		end.stamp = now.Add(-*a.offset) // nothing is told before it has happened
	}
	end.counted = !end.stamp.Before(a.report.Timestamp) && (!exact || listed)
	switch {
	case slot != nil:
		end.settled, end.counted = slot.settled, end.counted && slot.covered
		if slot.settled.IsZero() {
			end.settled = now
		}
		a.drop(slot)
	case letGo:
	case !listed, !end.counted, slices.ContainsFunc(a.ends, func(e modelEnd) bool { return e.task == r.Task }):
		return
	}
	a.ends = append(a.ends, end)
}

// seen hears of the consumers of the agent's queue.
func (m *model) seen(now time.Time, ev coordinator.QueueSeen) {
	a := m.agents[ev.Agent]
	switch {
	case !a.listed:
	case ev.Consumers > 0:
		a.hadConsumer, a.seenConsumer, a.missedAt = true, true, time.Time{}
		if a.state == coordinator.AgentGone && a.heard.After(a.departures[len(a.departures)-1]) {
			a.enter(now, coordinator.AgentOnline)
			if now.Sub(a.heard) >= m.policy.Settings.StaleAfter && !now.Before(m.graceEnd) {
				a.state = coordinator.AgentStale
			}
		}
	case now.Sub(a.missedAt) > missedFor:
		a.missedAt = now
	case a.state == coordinator.AgentOnline && (a.seenConsumer || a.hadConsumer && !now.Before(m.graceEnd)):
		a.enter(now, coordinator.AgentGone)
	}
}

// most is how many tasks the agent may have.
func (a *modelAgent) most() int {
	if a.report.MaxConcurrent > 0 && a.report.MaxConcurrent < a.spec.MaxConcurrent {
		return a.report.MaxConcurrent
	}
	return a.spec.MaxConcurrent
}

// slot finds a dispatch that counts against the agent, nil when none does.
func (a *modelAgent) slot(id string) *modelSlot {
	for _, s := range a.slots {
		if s.id == id {
			return s
		}
	}
	return nil
}

// slotOf finds the dispatch that the result is of.
func (a *modelAgent) slotOf(r *coordinator.Result) *modelSlot {
	for _, s := range a.slots {
		if s.task == r.Task && (r.DispatchID == "" || r.DispatchID == s.id) {
			return s
		}
	}
	return nil
}

func (a *modelAgent) drop(s *modelSlot) {
	a.slots = slices.DeleteFunc(a.slots, func(x *modelSlot) bool { return x == s })
}

// end notes that a dispatch has ended, and not by the agent's word.
func (a *modelAgent) end(id string) {
	if s := a.slot(id); s != nil {
		if s.over = true; s.covered || a.away() {
			a.drop(s)
		}
	}
}

// credit is how many of its active tasks it has told the end of; uncovered how
// many dispatches count on top.
func (a *modelAgent) credit() (n int) {
	for _, e := range a.ends {
		if e.counted {
			n++
		}
	}
	return n
}

func (a *modelAgent) uncovered() (n int) {
	for _, s := range a.slots {
		if !s.covered {
			n++
		}
	}
	return n
}

func (a *modelAgent) outstanding() int { return max(0, a.report.Active-a.credit()) + a.uncovered() }

func (a *modelAgent) reportedLoad() float64 {
	if a.report.Active == 0 {
		return a.report.Load
	}
	return a.report.Load * float64(max(0, a.report.Active-a.credit())) / float64(a.report.Active)
}

func (a *modelAgent) load() float64 {
	return min(1, max(a.reportedLoad(), float64(a.outstanding())/float64(a.most())))
}

// refusal says why the agent may not have the task now, "" when it may.
func (m *model) refusal(now time.Time, a *modelAgent, t *coordinator.Task, tried []coordinator.AgentID) string {
	has := func(c string) bool { return slices.Contains(a.spec.Capabilities, c) }
	if !a.listed {
		return "not in the fleet"
	}
	for _, c := range slices.Concat(m.policy.Routes[t.Type].Required, t.Required) {
		if !has(c) {
			return "lacks " + c
		}
	}
	s := m.policy.Settings
	_, ordered := m.orders[a.spec.ID]
	switch {
	case slices.Contains(t.Excluded, a.spec.ID):
		return "excluded"
	case slices.Contains(tried, a.spec.ID):
		return "had it before"
	case a.state != coordinator.AgentOnline:
		return a.state.String()
	case a.noQueue:
		return "no queue"
	case ordered && m.orders[a.spec.ID] == coordinator.OrderDrain:
		return "draining"
	}
	// From here on: what does not keep it from going on with what it has.
	switch {
	case ordered:
		return "(cordoned)"
	case now.Before(a.steadyAt):
		return "(unsteady)"
	case m.engine.fleet.byID[a.spec.ID].suspect: // there are tests for when it is
		return "(suspect)"
	case a.outstanding() >= m.engine.fleet.byID[a.spec.ID].room():
		return "(new, and full for now)"
	case a.report.Status == coordinator.StatusBusy && !s.BusyIsEligible:
		return "(busy)"
	case a.outstanding() >= a.most():
		return "(full)"
	case a.report.Available+min(a.credit(), a.report.Active)-a.uncovered() < 1:
		return "(no available capacity)"
	case a.reportedLoad() >= s.MaxLoad:
		return "(overloaded)"
	case now.Before(a.coolsAt):
		return "(queue full)"
	}
	return ""
}

// first reports whether waiting task a goes before b: the smaller accepted_at −
// priority × ageing, then the one that arrived first.
func (m *model) first(a, b *receipt) bool {
	rank := func(r *receipt) time.Time {
		return r.task.AcceptedAt.Add(-time.Duration(r.task.Priority) * m.policy.Settings.PriorityAgeing)
	}
	if x, y := rank(a), rank(b); !x.Equal(y) {
		return x.Before(y)
	}
	return a.handle < b.handle
}

// strategy is the name of the one that decides the task.
func (m *model) strategy(t *coordinator.Task) string {
	name := m.policy.Strategy
	if s := m.policy.Routes[t.Type].Strategy; s != "" {
		name = s
	}
	if t.Strategy != "" {
		name = t.Strategy
	}
	return name
}

// grows tells whether the agent was new until this tick, and gets its slots one by one: those that do
// so in the same tick do it one after the other.
func (m *model) grows(a *modelAgent) bool {
	since := m.engine.fleet.byID[a.spec.ID].since
	return !since.IsZero() && m.policy.Settings.SlowStart > 0 && m.before.Sub(since) <= m.policy.Settings.SlowStart
}

// knows tells whether the model has the strategy's rule.
func (m *model) knows(name string) bool { return slices.Index(strategies, name) < 4 }

// key is the order in which the task's strategy prefers agents, ties included,
// as COORDINATOR writes it.
func (m *model) key(t *coordinator.Task, a *modelAgent) []float64 {
	name, turn := m.strategy(t), float64(a.assignedAt)
	switch {
	case name == "round_robin":
		return []float64{turn}
	case name == "capability_match":
		return []float64{a.load(), -float64(len(a.spec.Capabilities)), turn}
	case name == "priority_based" && t.Priority >= coordinator.PriorityHigh:
		return []float64{float64(a.spec.Rank), a.load(), turn}
	}
	return []float64{a.load(), 0, turn}
}

// best is the agent the task should go to of those who are trusted, nil when nobody
// may have it.
func (m *model) best(now time.Time, t *coordinator.Task, tried []coordinator.AgentID, trusted func(coordinator.AgentID) bool) *modelAgent {
	preferred := m.policy.Routes[t.Type].Preferred
	if len(t.Preferred) > 0 {
		preferred = t.Preferred
	}
	pick := func(among func(coordinator.AgentID) bool) (best *modelAgent) {
		for _, id := range slices.Sorted(maps.Keys(m.agents)) {
			a := m.agents[id]
			if !among(id) || !trusted(id) || m.refusal(now, a, t, tried) != "" {
				continue
			}
			if best == nil || slices.Compare(m.key(t, a), m.key(t, best)) < 0 {
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

// sameBatch tells whether two dispatches of one moment may share a batch.
func (m *model) sameBatch(a, b *coordinator.Dispatch) bool {
	s, t, route := a.Task, b.Task, m.policy.Routes[a.Task.Type]
	required := func(t *coordinator.Task) []string { return coordinator.MergeSorted(route.Required, t.Required) }
	return route.Batch.MaxSize >= 2 && a.Agent == b.Agent && s.Type == t.Type && m.strategy(s) == m.strategy(t) &&
		slices.Equal(required(s), required(t)) && slices.Equal(s.Excluded, t.Excluded) && slices.Equal(s.Preferred, t.Preferred)
}

// dispatched judges a dispatch and counts it. resumed: it repeats the one that the
// agent has, or may have; follows: it went where another one of its batch went.
func (m *model) dispatched(now time.Time, d *coordinator.Dispatch, resumed, follows, probe bool) error {
	a := m.agents[d.Agent]
	slot := &modelSlot{id: d.DispatchID, task: d.Task.ID}
	former := a.slot(d.DispatchID)
	if former == nil {
		former = m.returned
	}
	if resumed && former != nil && former.id == d.DispatchID { // it is the same message again
		slot.covered = former.covered
		a.drop(former)
	}
	why := m.refusal(now, a, d.Task, d.Tried)
	if !resumed && !m.mayTrust(d.Agent, d.Task, probe) {
		why = "ejected"
	}
	if resumed && why != "" && why[0] == '(' {
		why = ""
	}
	if why != "" {
		return fmt.Errorf("%s went to %s, which may not have it: %s", d.Task.ID, d.Agent, why)
	}
	// Agents that cool down or become steady in the same tick do so one after the
	// other, and the work goes to the first: the better one may come too late.
	trusted := func(id coordinator.AgentID) bool { return id == d.Agent || !m.distrusted(id, d.Task) }
	if best := m.best(now, d.Task, d.Tried, trusted); m.knows(m.strategy(d.Task)) && (best == nil || !m.grows(best)) && !resumed && !follows && best != a && !best.coolsAt.After(m.before) && !best.steadyAt.After(m.before) {
		return fmt.Errorf("%s went to %s, the strategy's choice is %s", d.Task.ID, d.Agent, best.spec.ID)
	}
	m.sequence++
	a.assignedAt = m.sequence
	a.slots = append(a.slots, slot)
	return nil
}

// settled applies the outcome of a dispatch; over: it is of the past already.
func (m *model) settled(now time.Time, d *coordinator.Dispatch, o coordinator.PublishOutcome, over bool) {
	a := m.agents[d.Agent]
	s := a.slot(d.DispatchID)
	switch {
	case over: // its outcome came before the broker's answer
	case o == coordinator.PublishUnroutable:
		a.noQueue = a.listed
	case o == coordinator.PublishRejected && a.listed:
		a.coolsAt = now.Add(queueCool)
	}
	switch {
	case s == nil || !s.settled.IsZero(): // it has ended already
	case o == coordinator.PublishConfirmed, o == coordinator.PublishUnknown, s.over:
		if s.settled = now; s.over && a.away() {
			a.drop(s)
		}
	default:
		a.drop(s)
	}
}

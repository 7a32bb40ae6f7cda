package engine_test

import (
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// model is the rules of choice and of slots written down a second time, naively:
// no index, no cache, every question answered by going through everything. It
// learns of dispatches from the engine's effects and judges each of them. What
// becomes of tasks is the ledger's business.
type model struct {
	policy   *coordinator.Policy
	graceEnd time.Time
	held     bool                                // an alarm holds up publishers
	tellBy   time.Time                           // until then what could not be told before is awaited
	agents   map[coordinator.AgentID]*modelAgent // every agent that ever was
	orders   map[coordinator.AgentID]coordinator.Order
	returned *modelSlot // of the return that is being applied, nil otherwise
	sequence uint64     // of dispatches
	ticked   time.Time  // when tick was last called with a later time than before
	before   time.Time  // the tick before that

	ejectedBefore, ejected ejections                    // before and after the event being applied
	engine                 *engine.Engine               // asked for what the model has no rules of its own for
	suspected              map[coordinator.AgentID]bool // before the event
	// an agent had a task that must be alone, or was kept for one, before the event
	isolating bool
}

type modelAgent struct {
	spec       coordinator.AgentSpec
	listed     bool
	state      coordinator.AgentState
	heard      time.Time // zero: never
	report     coordinator.AgentReport
	knows      time.Time      // by the agent's clock: up to when its latest report speaks
	offset     *time.Duration // smallest (arrival − timestamp) of live reports
	slots      []*modelSlot   // dispatches that count against it
	ends       []modelEnd     // ends it has told since its latest report
	assignedAt uint64         // sequence of the latest dispatch
	noQueue    bool
	coolsAt    time.Time

	hadConsumer, seenConsumer bool
	unattended                bool // it had a consumer before this session, and a look found none
	missedAt                  time.Time
	departures                []time.Time // the latest, each less than flapMemory after the one before
	steadyAt                  time.Time
}

// modelSlot is a dispatch that counts against its agent: on top of what the agent
// reports, until a report speaks for it.
type modelSlot struct {
	id      string
	task    coordinator.TaskID
	message *coordinator.Dispatch // the copy that the slot is taken for
	settled time.Time             // zero: on its way
	covered bool
	over    bool // it has ended otherwise; only the agent's reports can free the slot
}

// modelEnd is an end that an agent has told; counted: its latest report still
// counts the task as active.
type modelEnd struct {
	task           coordinator.TaskID
	stamp, settled time.Time
	heard          time.Time
	counted        bool
}

// keptForOne is why an agent gets nothing that has a task that must be alone, or is kept for one.
const keptForOne = "(kept free)"

func newModel() *model {
	return &model{agents: make(map[coordinator.AgentID]*modelAgent),
		orders: make(map[coordinator.AgentID]coordinator.Order)}
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
			a.noQueue, a.coolsAt, a.hadConsumer, a.seenConsumer, a.unattended, a.missedAt = false, time.Time{}, false, false,
				false, time.Time{}
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

// tick notes the agents that have been silent for too long.
func (m *model) tick(now time.Time) {
	if now.After(m.ticked) {
		m.before, m.ticked = m.ticked, now
	}
	for _, a := range m.agents {
		if a.listed && a.state == coordinator.AgentOnline && m.silent(now, a) {
			a.enter(now, coordinator.AgentStale)
		}
	}
}

// silent: it has told nothing for too long, although it could have.
func (m *model) silent(now time.Time, a *modelAgent) bool {
	return now.Sub(a.heard) >= m.policy.Settings.StaleAfter && !m.held && !now.Before(m.tellBy)
}

// enter moves the agent to a state. From its third departure in a row on it is
// held to be unsteady, for 1, 2, 4, … at most 30 s.
func (a *modelAgent) enter(now time.Time, s coordinator.AgentState) {
	if a.state == coordinator.AgentOnline && s != a.state {
		if n := len(a.departures); n > 0 && now.Sub(a.departures[n-1]) > engine.FlapMemory {
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

// hearAgain gives every agent the time to tell what it could not.
func (m *model) hearAgain(now time.Time) {
	longest := time.Duration(0)
	for _, a := range m.agents {
		if a.listed {
			longest = max(longest, a.spec.HealthCheckInterval)
		}
	}
	m.tellBy = now.Add(longest)
}

// hold begins an alarm, or ends it. One that the session does not outlive ends with it.
func (m *model) hold(now time.Time, held bool) {
	if m.held && !held {
		m.hearAgain(now)
	}
	m.held = held
}

func (m *model) openSession(now time.Time) {
	m.hearAgain(now)
	m.graceEnd = m.tellBy
	for _, a := range m.agents {
		a.seenConsumer, a.unattended, a.missedAt = false, false, time.Time{}
	}
}

// heard applies a heartbeat, if it is to be accepted.
func (m *model) heard(now time.Time, r coordinator.AgentReport, live bool) {
	a := m.agents[r.Agent]
	if a == nil || !a.listed {
		return
	}
	again := false
	if !a.heard.IsZero() {
		older, same := r.Timestamp.Before(a.report.Timestamp), r.Timestamp.Equal(a.report.Timestamp)
		again = live && same
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
	a.report, a.heard, a.knows = r, now, r.Timestamp
	a.ends = slices.DeleteFunc(a.ends, func(e modelEnd) bool {
		return live && now.Sub(e.heard) >= 2*a.spec.HealthCheckInterval
	})
	if again { // its clock stands, or is coarse: it was made just now
		a.knows = now.Add(-*a.offset)
	}
	a.audit()
	switch {
	case r.Status == coordinator.StatusOffline:
		a.hadConsumer, a.seenConsumer, a.unattended = false, false, false
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
	a.ends = slices.DeleteFunc(a.ends, func(e modelEnd) bool { return e.stamp.Before(a.knows) })
	for i := range a.ends {
		e := &a.ends[i]
		e.counted = exact && slices.Contains(a.report.ActiveTasks, e.task) || !exact && knows(e.settled)
	}
}

// told takes note of an end that the agent has told. slot: the dispatch counts
// against it; LetGo: it did, until a report spoke for it and there was to be no
// result. Otherwise it is of a dispatch that has gone to another agent.
func (a *modelAgent) told(now time.Time, r *coordinator.Result, slot *modelSlot, letGo bool) {
	exact, listed := a.report.ActiveTasks != nil, slices.Contains(a.report.ActiveTasks, r.Task)
	end := modelEnd{task: r.Task, stamp: r.Timestamp, heard: now}
	if a.offset != nil && end.stamp.After(now.Add(-*a.offset)) {
		end.stamp = now.Add(-*a.offset) // nothing is told before it has happened
	}
	end.counted = !end.stamp.Before(a.knows) && (!exact || listed)
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
		a.hadConsumer, a.seenConsumer, a.unattended, a.missedAt = true, true, false, time.Time{}
		if a.state == coordinator.AgentGone && a.heard.After(a.departures[len(a.departures)-1]) {
			a.enter(now, coordinator.AgentOnline)
			if m.silent(now, a) {
				a.state = coordinator.AgentStale
			}
		}
	case now.Sub(a.missedAt) > engine.MissedFor:
		a.missedAt = now
		a.unattended = a.unattended || a.hadConsumer && !a.seenConsumer
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
		if s.task == r.Task && (r.DispatchID == "" || brief(r.Task, r.DispatchID) == brief(s.task, s.id)) {
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

package state

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/engine/internal/admission"
	"taskbus/coordinator/fairshare"
	"taskbus/coordinator/fairshare/fairqueue"
	"taskbus/coordinator/llmcalls"
)

// LLM quotas. A task is given to an agent only when its group has quota for it: that is reserved before the
// dispatch, under its id, and ends with the dispatch. internal/admission keeps what is reserved and what waits, and
// says how it ends; here it is asked for, recorded and announced.
type quotas struct {
	*admission.Quotas
	number func(coordinator.AgentID) (int, bool)
	// Serving are the levels of what waits that the agent at hand could serve, a bit each.
	Serving uint8
	Claimed bool // a wait was removed, and an agent may claim its task
	due     Timer
}

func newQuotas() quotas {
	order := func(a, b any) bool { return Before(a.(*Task), b.(*Task)) }
	return quotas{Quotas: admission.NewQuotas(order), due: NewTimer(DutyQuota, nil, nil)}
}

// QuotaDemand is what the task will probably take; nil where there are no quotas.
func (s *State) QuotaDemand(t *Task) *admission.Hold {
	if !s.Quotas.Installed() {
		return nil
	}
	if t.Quota == nil {
		t.Quota = s.Quotas.Hold(t.Task)
	}
	return t.Quota
}

// ReserveQuota reserves quota for giving the task to the agent now, and charges the turns of its
// group and its priority. A refusal changes nothing.
func (s *State) ReserveQuota(now time.Time, t *Task, a *Agent) fairshare.Verdict {
	h, q, level := s.QuotaDemand(t), &s.Quotas, LevelOf(t)
	waiting := q.Serving | 1<<level
	if h != nil {
		if h.Open {
			return fairshare.Verdict{OK: true}
		}
		v := q.Reserve(now, t.Task, t.Attempt, h, a.Spec.ID)
		if !v.OK {
			s.QuotaAlerts()
			return v
		}
		s.Unpriced(&h.Charge, false)
		if v.Charged {
			if s.Recorder.On {
				s.Commit(h.Record(now, level, waiting))
			}
			s.sharesMoved()
			s.QuotaAlerts()
		}
	}
	q.Shares.Served(level, waiting)
	return fairshare.Verdict{OK: true}
}

// EndQuota ends what is reserved for the task's dispatch, if that has not ended before; r is the result where one is
// reported.
func (s *State) EndQuota(now time.Time, t *Task, how admission.How, r *coordinator.Result) {
	if t.Quota == nil {
		return
	}
	s.quotaEnded(t.Task.ID, s.Quotas.End(now, t.Quota, t.Task.Type, &admission.Dispatch{
		How: how, Result: r, Begun: t.Begun, Again: t.Resumed, Unanswered: t.Unanswered,
	}))
}

// SettleLate charges usage that is reported after the quota of its dispatch had expired.
func (s *State) SettleLate(now time.Time, r *coordinator.Result, attempt int) {
	s.quotaEnded(r.Task, s.Quotas.SettleLate(now, r, attempt))
}

// quotaEnded records and announces how a reservation has ended. Usage that exceeds the trust limit, or by far what
// was reserved, is announced once for each dispatch.
func (s *State) quotaEnded(id coordinator.TaskID, x admission.End) {
	if x.Unpriced != nil {
		s.Emit(x.Unpriced)
	}
	if x.Ended == nil { // nothing but its turn was charged
		return
	}
	if x.Excess.Used > 0 {
		s.Emit(x.Excess.Effect(id, x.Charge, x.Ended))
	}
	s.Controls.Count(s.Quotas.Ledger, x.Charge, x.Ended)
	s.Commit(x.Ended)
	s.sharesMoved()
	s.QuotaAlerts()
	if s.Quotas.due.Index < 0 { // it is to be forgotten in time
		s.ScheduleQuota()
	}
}

// Enter has the task wait in its class: its group may begin to wait by that.
func (s *State) Enter(now time.Time, t *Task) {
	s.Pending.Enter(now, t)
	s.sharesMoved()
}

// sharesMoved records what waiting has moved.
func (s *State) sharesMoved() {
	for _, r := range s.Quotas.Moved() {
		s.Commit(r)
	}
}

// Unpriced emits that a call or task, charged so, is of a model without a price where money is limited: it
// would get past that limit.
func (s *State) Unpriced(c *fairshare.Charge, refused bool) {
	if f, is := s.Quotas.Ledger.ModelUnpriced(c, refused); is {
		s.Emit(f)
	}
}

// ReviewQuotas emits budgets that have come to a threshold without any use: they are smaller now, or the
// leader before ended too soon to emit it. Without a session it would be lost: the next session does it.
func (s *State) ReviewQuotas(now time.Time) {
	if s.Fleet.Connected && !s.Following {
		s.Quotas.Ledger.Review(now)
		s.QuotaAlerts()
	}
}

// QuotaAlerts emits budgets that are nearly, or quite, used up.
func (s *State) QuotaAlerts() {
	for _, a := range s.Quotas.Alerts() {
		if s.Commit(a.Told(s.Quotas.Ledger.Now())); !a.Echo {
			s.Emit(a.Reached())
		}
	}
}

// ScheduleQuota sets the timer to when quota may be back, or a reservation ends. A standby has none: records
// that are yet to be folded may extend an expired reservation, or end it otherwise, and only the leader records how
// it ends.
func (s *State) ScheduleQuota() {
	if at, ok := s.Quotas.Due(); ok && !s.Following {
		s.Timers.Schedule(&s.Quotas.due, at)
	} else {
		s.Timers.Cancel(&s.Quotas.due)
	}
}

// foldQuota takes over what is recorded of quotas.
func (s *State) foldQuota(r coordinator.Record) {
	if r, is := r.(*coordinator.QuotaReserved); is {
		s.Calls.FoldNames(r)
	}
	x := s.Quotas.Fold(r)
	if x.Renumbered {
		s.ForgetClasses()
	}
	if x.Ended {
		s.Controls.Count(s.Quotas.Ledger, &x.Charge, r.(*coordinator.QuotaEnded))
	}
}

// ForgetClasses has the classes made anew: their tenant queues have other numbers. Nothing waits yet.
func (s *State) ForgetClasses() {
	s.Pending.Forget()
	s.Routes = make(map[string]*Requirements)
}

// AdoptReservations gives the dispatches of the leader before what is reserved for them.
func (s *State) AdoptReservations() {
	q := &s.Quotas
	if q.InstallFolded() {
		s.ForgetClasses()
	}
	q.Ledger.Install(s.Now, q.Ledger.Quotas()) // a snapshot may be from the time of others
	for _, t := range s.Tasks.All {
		if t == nil || t.Stage < Dispatching || t.Over {
			continue
		}
		if h := q.Adopt(admission.KeyOf(t.Task.ID, t.Attempt)); h != nil {
			t.Quota = h
		}
	}
	q.Adopted(s.Now)
}

// QuotaTime is when the ledger is to be read, or goes on under other quotas: a follower must not get ahead of what
// it folds, or it would count it in another period than the leader does.
func (s *State) QuotaTime(now time.Time) time.Time {
	if s.Following && !s.Quotas.Ledger.Fresh() {
		return s.Quotas.Ledger.Now()
	}
	return now
}

// ReadingTime is the time as of which readers get quotas: QuotaTime, but before what is due and not done. A period that
// has begun for a question, and not for what was to happen before it, would have that decided otherwise.
func (s *State) ReadingTime(now time.Time) time.Time {
	if at, due := s.NextDeadline(); due && !at.After(now) {
		now = at.Add(-1)
	}
	return s.QuotaTime(now)
}

// ServiceOf returns the model that an agent is to use for the task; zero: the task names no alternatives. A
// dispatch that is sent again names the model that it named before.
func (s *State) ServiceOf(t *Task) coordinator.Service {
	if t.Resumed && t.Service != (coordinator.Service{}) && len(t.Task.Alternatives) > 0 {
		return t.Service
	}
	return t.Quota.Service(t.Task)
}

// LeafOf returns the tenant queue that the task's turn is charged to.
func (s *State) LeafOf(t *Task) int { return s.Quotas.Shares.Leaf(t.Task.Group) }

// LevelOf is the task's place among the priorities.
func LevelOf(t *Task) int { return int(t.Task.Priority) }

// Takers are the agents that the task may go to.
func (s *State) Takers(t *Task) admission.Takers {
	return admission.Takers{
		Usable: t.Needs.Class.Usable, Ready: s.Fleet.Ready, Agents: len(s.Fleet.Agents), Number: s.Quotas.number,
	}
}

// QuotaMissing is what keeps the task from the agents that could have it now: nothing does if it lacks nothing.
func (s *State) QuotaMissing(now time.Time, t *Task) admission.Refusal {
	return s.Quotas.Able(now, t.Task, s.QuotaDemand(t), s.Takers(t), true)
}

// WaitAt is what the tasks of a leaf wait for in a class; nil: for no quota.
func (s *State) WaitAt(c *Class, leaf int) *admission.Wait {
	if c == nil {
		return nil
	}
	return s.Quotas.Waits.Find(c, leaf)
}

// WaitOf is what an open task waits for; nil: for no quota.
func (s *State) WaitOf(open *Task) *admission.Wait {
	if open == nil || open.Stage != Waiting {
		return nil
	}
	return s.WaitAt(open.Needs.Class, open.Leaf)
}

// WaitsForQuota reports whether the task is to wait for quota behind another of its group, or of its pool.
func (s *State) WaitsForQuota(t *Task) bool {
	return s.Quotas.Installed() && s.Quotas.Waits.Behind(t.Needs.Class, s.LeafOf(t), LevelOf(t), t)
}

// QuotaView is what admission reads of the engine.
type quotaView State

func (s *State) QuotaView() *quotaView { return (*quotaView)(s) }

func (v *quotaView) Servable(of admission.Class) bool {
	c := of.(*Class)
	return c.Usable.First(v.Fleet.Ready) >= 0 || v.Claims.Reaches(c.Usable)
}

func (v *quotaView) First(others uint8) (level, leaf int, ok bool) {
	line := v.Pending.LineFor(v.Fleet.Ready, fairqueue.AllLevels, others)
	return line.Peek()
}

// Unpark ends the parking of the tasks of waits that were removed; claim: agents that claim may have them now.
func (s *State) Unpark(waits []*admission.Wait, claim bool) {
	for _, w := range waits {
		c := w.Class.(*Class)
		if c.Unpark(w.Leaf); claim {
			s.Claims.Wanted(c.Usable)
		}
	}
}

// RetryOwn removes the waits for which it differs which agent has the task, and that did not lack anything
// for this one.
func (s *State) RetryOwn(number int) { s.Unpark(s.Quotas.Waits.RetryWith(number), false) }

// CallsChanged takes over what has happened to calls.
func (s *State) CallsChanged(out *llmcalls.Outcome) {
	for i := range out.Settled {
		s.Controls.Count(s.Quotas.Ledger, &out.Settled[i].Charge, out.Settled[i].Ended)
	}
	for _, r := range out.Records {
		s.Commit(r)
	}
	for _, f := range out.Effects {
		s.Emit(f)
	}
}

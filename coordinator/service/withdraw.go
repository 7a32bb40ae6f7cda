package service

import (
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/messages"
	"taskbus/schemas"
)

// withdrawal is a task.cancel on its way to an agent.
type withdrawal struct{ coordinator.Withdraw }

// publishWithdrawal orders an agent to drop or stop a dispatch. It is mandatory:
// an agent without a control queue cannot be reached.
func (r *session) publishWithdrawal(w *withdrawal) {
	p := r.control(w.Agent, schemas.TaskCancel, string(w.Task)+".cancel", w.TraceID)
	p.Token = r.tickets.issue(w)
	p.Body = messages.AppendTaskCancel(nil, &w.Withdraw)
	if err := r.bus.Publish(p); err != nil {
		r.tickets.redeem(p.Token) // the session has ended; the next one sends it again
	}
}

// settled hears whether the agent has a control queue. Whether it stops is for
// its result to say.
func (w *withdrawal) settled(r *session, outcome bus.Outcome) {
	if outcome == bus.Unknown {
		return // the session ends; the next one sends it again
	}
	r.ackAll(r.requests.told(w.Task))
	if outcome == bus.Confirmed || w.Token == 0 { // 0: no request waits: the dispatch is over, or its time is
		return
	}
	r.s.observe.cannotTell(w, outcome)
	r.announce(schemas.TaskCancelRequested+"."+string(w.Agent), schemas.TaskCancelRequested,
		string(w.Task)+".cancel_requested", w.TraceID, messages.AppendTaskCancelRequested(nil, &w.Withdraw, r.s.now()))
	r.s.callers.untold(w.Token)
}

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
	p := r.sender().Withdrawal(&w.Withdraw)
	p.Token = r.issue(w)
	if err := r.bus.Publish(p); err != nil {
		r.tickets.Redeem(p.Token) // the session has ended; the next one sends it again
	}
}

// settled hears whether the agent has a control queue. Whether it stops is for
// its result to say.
func (w *withdrawal) settled(r *session, outcome bus.Outcome) {
	if outcome == bus.Unknown {
		return // the session ends; the next one sends it again
	}
	r.ackAll(r.requests.Told(w.Task))
	if outcome == bus.Confirmed || w.Token == 0 { // 0: no request waits: the dispatch is over, or its time is
		return
	}
	r.s.observe.CannotTell(&w.Withdraw, outcome)
	r.announce(schemas.TaskCancelRequested+"."+string(w.Agent), schemas.TaskCancelRequested,
		string(w.Task)+".cancel_requested", w.TraceID, messages.AppendTaskCancelRequested(nil, &w.Withdraw, r.s.now()))
	r.s.callers.untold(w.Token)
}

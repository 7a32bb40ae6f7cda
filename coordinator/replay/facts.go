package replay

import (
	"slices"
	"time"

	"taskbus/coordinator"
)

// manner is how a dispatch ended.
type manner uint8

const (
	succeeded manner = iota
	failed           // by its agent's word
	rejected         // its agent gave it back
	expired          // its agent did not take it in time
	limited          // handed out too often without an acknowledgement
	lost             // not said in time how it ended
	// What follows says nothing of how the agent does.
	unfinished // when the recording ended it had it still
	withdrawn  // cancelled
	takenBack  // out of its queue, because it was gone or drained
)

// ending is how a dispatch ended, and after what time.
type ending struct {
	agent  coordinator.AgentID // on which it did
	manner manner
	after  time.Duration // from the dispatch on
	// work, attempted and usage are what the result says; reported: there was one.
	work      time.Duration
	attempted bool
	usage     *coordinator.Usage
	reported  bool
}

// dispatch is one that was truly made.
type dispatch struct {
	task  *coordinator.Task
	agent coordinator.AgentID
	at    time.Time
	end   *ending // nil: not known yet
}

// pair is a task on an agent, or a type of tasks.
type pair struct {
	agent coordinator.AgentID
	what  string
}

// facts are what truly happened, as far as the model needs to know.
type facts struct {
	until      time.Time
	byID       map[string]*dispatch // by dispatch id
	made       []*dispatch          // in order
	byHandle   map[coordinator.Handle]*dispatch
	latest     map[pair]*dispatch // by task id and agent
	last       map[coordinator.TaskID]*dispatch
	agents     map[coordinator.AgentID]*agentFacts
	latencies  []time.Duration // from a dispatch to its confirm
	seen       map[coordinator.TaskID]bool
	cameBack   map[string]bool // dispatch ids
	kept       []bool          // by input: the model is given it, too
	downs      []span          // without a session
	redelivery map[int]time.Time
	opened     int // input that opened the session at hand; −1: none
}

// agentFacts are what is known of one agent.
type agentFacts struct {
	results bool // it sends results
	ids     bool // with dispatch ids
	reports []beat
	absent  []span        // when it was not there, in order; known when all is
	offset  time.Duration // its clock is so far behind ours, at least; meant only when clocked
	clocked bool
	// busyWhenFull: it reported busy without a free slot, and never ready.
	busyWhenFull, readyWhenFull bool
}

// beat is one heartbeat.
type beat struct {
	at      time.Time
	offline bool
}

// span is a time between two moments, the second not included.
type span struct{ from, until time.Time }

func newFacts(inputs int, until time.Time) *facts {
	return &facts{
		until: until, byID: make(map[string]*dispatch), byHandle: make(map[coordinator.Handle]*dispatch),
		latest: make(map[pair]*dispatch), last: make(map[coordinator.TaskID]*dispatch),
		agents: make(map[coordinator.AgentID]*agentFacts),
		seen:   make(map[coordinator.TaskID]bool), cameBack: make(map[string]bool),
		kept: make([]bool, 0, inputs), redelivery: make(map[int]time.Time), opened: -1,
	}
}

func (f *facts) agent(id coordinator.AgentID) *agentFacts {
	a := f.agents[id]
	if a == nil {
		a = &agentFacts{}
		f.agents[id] = a
	}
	return a
}

// take learns from one input and what the engine made of it.
func (f *facts) take(at time.Time, ev coordinator.Event, effects []coordinator.Effect) {
	f.kept = append(f.kept, f.input(at, ev))
	for _, effect := range effects {
		switch e := effect.(type) {
		case *coordinator.Dispatch:
			d := &dispatch{task: e.Task, agent: e.Agent, at: at}
			f.byID[e.DispatchID], f.byHandle[e.Handle] = d, d
			f.latest[pair{e.Agent, string(e.Task.ID)}], f.last[e.Task.ID] = d, d
			f.made = append(f.made, d)
		case *coordinator.Fail:
			if e.Failure.Reason == coordinator.ReasonTaskTimeout {
				f.timedOut(at, e.Task.ID)
			}
		}
	}
}

// timedOut ends the dispatch whose agent has not said in time how it ended.
func (f *facts) timedOut(at time.Time, id coordinator.TaskID) {
	if d := f.last[id]; d != nil && d.end == nil {
		d.end = &ending{agent: d.agent, manner: lost, after: at.Sub(d.at)}
	}
}

// input learns from one input, and reports whether it is the world's own doing: whether
// it would have come, too, had other agents got the tasks.
func (f *facts) input(at time.Time, ev coordinator.Event) bool {
	switch ev := ev.(type) {
	case coordinator.TaskReceived:
		f.delivered(at)
		again := (ev.Redelivered || ev.Lane != "") && f.seen[ev.Task.ID]
		f.seen[ev.Task.ID] = true
		return !again
	case coordinator.TaskReturned:
		f.delivered(at)
		return f.returned(at, &ev)
	case coordinator.ResultReported:
		return f.result(at, &ev.Result)
	case coordinator.AgentReported:
		f.report(at, &ev)
	case coordinator.DispatchSettled:
		f.settled(at, ev)
		return false
	case coordinator.SessionOpened:
		f.opened = len(f.kept)
		if n := len(f.downs); n > 0 && f.downs[n-1].until.IsZero() {
			f.downs[n-1].until = at
		}
	case coordinator.SessionLost:
		f.opened = -1
		f.downs = append(f.downs, span{from: at})
	case coordinator.Tick, coordinator.QueueChecked, coordinator.TakeBackEnded, coordinator.FailureTold,
		// nor what would be moved
		coordinator.LaneMoved, coordinator.LaneSeen, coordinator.LaneEnded, coordinator.IntakeChanged,
		coordinator.BidReceived, coordinator.OfferUnheard: // it is not known what they would have bid for other tasks
		return false
	}
	return true
}

// delivered notes when the broker began to deliver in the session at hand.
func (f *facts) delivered(at time.Time) {
	if _, known := f.redelivery[f.opened]; f.opened >= 0 && !known {
		f.redelivery[f.opened] = at
	}
}

// settled learns how long a confirm takes. What did not get through was never with
// its agent.
func (f *facts) settled(at time.Time, ev coordinator.DispatchSettled) {
	d := f.byHandle[ev.Handle]
	if d == nil {
		return
	}
	delete(f.byHandle, ev.Handle)
	switch ev.Outcome {
	case coordinator.PublishConfirmed:
		f.latencies = append(f.latencies, at.Sub(d.at))
	case coordinator.PublishUnknown:
	default:
		if d.end == nil {
			d.end = &ending{agent: d.agent, manner: takenBack}
		}
	}
}

// returned learns how a dispatch ended that came back; false when it was one of those
// that this engine made, or a second copy.
func (f *facts) returned(at time.Time, ev *coordinator.TaskReturned) bool {
	f.seen[ev.Task.ID] = true
	id := coordinator.DispatchID(ev.Task, ev.Attempt)
	d := f.byID[id]
	if d == nil {
		again := ev.Redelivered && f.cameBack[id]
		f.cameBack[id] = true
		return !again
	}
	if d.end != nil && d.end.manner != rejected && d.end.manner != lost {
		return false
	}
	var former ending
	if d.end != nil {
		former = *d.end
	}
	d.end = &ending{agent: d.agent, after: at.Sub(d.at), reported: former.reported, attempted: former.attempted,
		work:  former.work,
		usage: former.usage}
	switch ev.Cause {
	case coordinator.ReturnRejected:
		d.end.manner = rejected
	case coordinator.ReturnExpired:
		d.end.manner = expired
	case coordinator.ReturnDeliveryLimit:
		d.end.manner = limited
	default:
		d.end.manner = takenBack
	}
	return false
}

// result learns how a dispatch ended by its agent's word; false when it was one of
// those that this engine made.
func (f *facts) result(at time.Time, r *coordinator.Result) bool {
	a := f.agent(r.Agent)
	a.results, a.ids = true, a.ids || r.DispatchID != ""
	d := f.byID[r.DispatchID]
	if d == nil || d.agent != r.Agent {
		d = f.latest[pair{r.Agent, string(r.Task)}]
	}
	if d == nil {
		return true
	}
	if d.end != nil {
		return false
	}
	d.end = &ending{agent: d.agent, after: at.Sub(d.at), work: r.Duration, attempted: r.Attempted, usage: r.Usage,
		reported: true}
	switch r.Outcome {
	case coordinator.OutcomeSucceeded:
		d.end.manner = succeeded
	case coordinator.OutcomeFailed:
		d.end.manner = failed
	case coordinator.OutcomeRejected:
		d.end.manner = rejected
	default:
		d.end.manner = withdrawn
	}
	return false
}

// report learns when an agent was there, and what its heartbeats are like.
func (f *facts) report(at time.Time, ev *coordinator.AgentReported) {
	r := &ev.Report
	if r.Relayed {
		return
	}
	a := f.agent(r.Agent)
	if behind := at.Sub(r.Timestamp); ev.Live && (!a.clocked || behind < a.offset) {
		a.offset, a.clocked = behind, true
	}
	a.reports = append(a.reports, beat{at, r.Status == coordinator.StatusOffline})
	if r.Available == 0 {
		a.busyWhenFull = a.busyWhenFull || r.Status == coordinator.StatusBusy
		a.readyWhenFull = a.readyWhenFull || r.Status == coordinator.StatusReady
	}
}

// close learns what can only be known at the end: what agents have still.
func (f *facts) close() {
	if n := len(f.downs); n > 0 && f.downs[n-1].until.IsZero() {
		f.downs[n-1].until = f.until
	}
	for _, a := range f.agents {
		a.absent = f.absences(a)
	}
	for _, d := range f.made {
		a := f.agent(d.agent)
		switch {
		case d.end == nil && a.results:
			d.end = &ending{agent: d.agent, manner: unfinished}
		case d.end != nil && (d.end.manner == expired || d.end.manner == lost) && a.away(d.at, d.at.Add(d.end.after)):
			d.end.manner = takenBack // because it was not there: that says nothing of how it does
		}
	}
}

// latency is how long a confirm takes as a rule.
func (f *facts) latency() time.Duration {
	if len(f.latencies) == 0 {
		return time.Millisecond
	}
	slices.Sort(f.latencies)
	return f.latencies[len(f.latencies)/2]
}

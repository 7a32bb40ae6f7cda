package messages

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"taskbus/coordinator"
	"taskbus/schemas"
)

// Returned is a dispatch that came back: its agent did not do it.
type Returned struct {
	// Task as it was when it was sent, but for its trace context, which has
	// headers of its own and is left empty, and its times, which come back to the
	// microsecond.
	Task *coordinator.Task
	// Payload is the producer's JSON object, byte for byte: a part of the body.
	Payload json.RawMessage
	// Agent that had it last, under Attempt (from 1).
	Agent   coordinator.AgentID
	Attempt int
	// Tried lists the agents that have had it, Agent among them. Sorted, without
	// duplicates; the caller owns it.
	Tried []coordinator.AgentID
	// Failed lists those of Tried on which it failed, as the header says; nil when
	// there are none. Sorted, without duplicates; the caller owns it.
	Failed []coordinator.AgentID
	// Suspected lists the agents that went down with it and others in hand, once for
	// each time; the caller owns it.
	Suspected []coordinator.AgentID
	// Tries is how many dispatches before it an agent had and did not do; 0: as many as there
	// are others in Tried.
	Tries int
}

// DecodeReturned reads a dispatch that came back: its body, and its headers
// HeaderTask and HeaderTried, the latter empty when there is none. It accepts
// whatever Taskbus can have sent for a task within the decoder's limits. All
// three are untrusted: an agent's queue may hold anything.
//
// A refusal names task, trace id and the producer's queue as far as body and
// header can be read, so that the producer can be told. The result holds a part
// of body, which must not be changed afterwards.
func (d *Decoder) DecodeReturned(body []byte, taskHeader, triedHeader string) (*Returned, *Refusal) {
	m, refusal := d.DecodeTaskDispatch(body)
	// Read in any case: where the body is at fault it may still name the sender.
	header, headerRefusal := d.decodeHeader(schemas.TaskHeader, taskHeader)
	var replyTo string
	if headerRefusal == nil {
		replyTo = field[string](header, "reply_to")
	} else {
		replyTo = headerRefusal.ReplyTo
	}
	if refusal == nil {
		refusal = headerRefusal
	}
	var task *coordinator.Task
	if refusal == nil {
		task, refusal = returnedTask(m, header)
	}
	returned := &Returned{}
	if refusal == nil {
		refusal = d.tried(returned, m, triedHeader)
	}
	if refusal != nil {
		if m != nil {
			refusal.MessageType, refusal.TaskID, refusal.CorrelationID = schemas.TaskDispatch, m.TaskID, m.CorrelationID
		}
		refusal.ReplyTo = replyTo
		return nil, refusal
	}
	returned.Task, returned.Payload, returned.Agent, returned.Attempt = task, m.Payload, m.AssignedAgent, m.Attempt
	return returned, nil
}

// decodeHeader reads a header that holds JSON.
func (d *Decoder) decodeHeader(name, header string) (*envelope, *Refusal) {
	if header == "" {
		return nil, headerRefusal(name, "it is missing, and without it only a person can decide the task again")
	}
	l := d.limits.dispatched()
	l.MaxBytes = max(l.MaxBytes, maxHeaders)
	e, refusal := d.decodeWithin(l, name, []byte(header))
	if refusal != nil {
		refusal.Text = Clean("header "+name+": "+refusal.Text, MaxText)
		return nil, refusal
	}
	return e, nil
}

// headerRefusal is for what no schema can say of a header.
func headerRefusal(name, text string) *Refusal {
	return &Refusal{Keyword: "header", Text: "header " + name + ": " + text}
}

// returnedTask puts the task together from body and header.
func returnedTask(m *TaskDispatch, header *envelope) (*coordinator.Task, *Refusal) {
	hash, err := strconv.ParseUint(field[string](header, "content_hash"), 16, 64)
	if err != nil {
		return nil, headerRefusal(HeaderTask, "/content_hash: expected 16 hexadecimal digits")
	}
	t := new(TaskAssign)
	if refusal := header.into(t); refusal != nil {
		return nil, refusal
	}
	if t.TimeoutSeconds > 0 && t.TimeoutSeconds != m.TimeoutSeconds {
		return nil, headerRefusal(HeaderTask, "/timeout_seconds: the body has another")
	}
	t.TaskID, t.TaskType, t.Priority = m.TaskID, m.TaskType, m.Priority
	t.Carried, t.Deadline, t.Description = m.Carried, m.Deadline, m.Description
	return t.Task(Arrival{
		Now:         time.UnixMicro(int64(number(header, "accepted_at"))).UTC(),
		ContentHash: hash,
		ReplyTo:     field[string](header, "reply_to"),
	}), nil
}

// tried reads which agents have had the task, the agent of this dispatch included, on
// which of these it failed, and which went down with it.
func (d *Decoder) tried(r *Returned, m *TaskDispatch, header string) *Refusal {
	if header == "" {
		r.Tried = []coordinator.AgentID{m.AssignedAgent}
		return nil
	}
	e, refusal := d.decodeHeader(schemas.TriedHeader, header)
	switch {
	case refusal != nil:
		return refusal
	case coordinator.AgentID(field[string](e, "agent")) != m.AssignedAgent:
		return headerRefusal(HeaderTried, "/agent: the body has another")
	case integer(e, "attempt") != m.Attempt:
		return headerRefusal(HeaderTried, "/attempt: the body has another")
	}
	r.Tried = coordinator.SortedUnique(append(list[coordinator.AgentID](e, "tried"), m.AssignedAgent))
	for _, agent := range coordinator.SortedUnique(list[coordinator.AgentID](e, "failed")) {
		if _, had := slices.BinarySearch(r.Tried, agent); had {
			r.Failed = append(r.Failed, agent)
		}
	}
	r.Suspected, r.Tries = list[coordinator.AgentID](e, "suspected"), integer(e, "tries")
	return nil
}

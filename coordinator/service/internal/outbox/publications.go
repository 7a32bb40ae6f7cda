package outbox

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/messages"
	"taskbus/schemas"
)

// Properties that everything published carries.
const (
	AppID       = "taskbus"
	ContentJSON = "application/json"
)

// TypeStub is the type of what stands in task.dead for what could not be kept.
const TypeStub = "task.dead.stub"

// ReplyLife is how long an agent has to fetch the answers to its bids and claims. An older answer is of no
// use to it.
const ReplyLife = time.Minute

// Sender is what a publication says of its sender: the user that the broker vouches for, or nothing; and when.
type Sender struct {
	User string
	At   time.Time
}

// Dispatch returns a task on its way to its agent. Its token is the handle. explained: the body says why the agent was
// chosen; expires: the queue is known to give back what expires.
func (s Sender) Dispatch(d *coordinator.Dispatch, payload []byte, explained, expires bool) bus.Publication {
	headers := map[string]any{messages.HeaderTask: messages.EncodeTaskHeader(d.Task)}
	if tried := messages.EncodeTriedHeader(d); tried != "" {
		headers[messages.HeaderTried] = tried
	}
	if d.MaybeDuplicate {
		headers[messages.HeaderMaybeDuplicate] = true
	}
	AddTrace(headers, d.Task)
	var expiration time.Duration
	if expires {
		expiration = d.AcceptTimeout
	}
	render := messages.AppendDispatch
	if explained {
		render = messages.AppendExplainedDispatch
	}
	return bus.Publication{
		Token: uint64(d.Handle),
		Key:   d.Queue,
		Properties: bus.Properties{
			ContentType:   ContentJSON,
			Type:          schemas.TaskDispatch,
			MessageID:     d.DispatchID,
			CorrelationID: d.Task.CorrelationID,
			AppID:         AppID,
			UserID:        s.User,
			Expiration:    expiration,
			Timestamp:     d.At,
			Headers:       headers,
		},
		Body: render(make([]byte, 0, len(payload)+768), d, payload),
	}
}

// Failed returns assignment.failed.
func Failed(f *coordinator.Fail) bus.Publication {
	p := bus.Publication{
		Exchange: bus.ExchangeEvents,
		Key:      bus.QueueFailed + "." + f.Failure.Reason.String(),
		Properties: bus.Properties{
			ContentType: ContentJSON, Type: schemas.AssignmentFailed, AppID: AppID,
			MessageID: string(f.Task.ID) + ".failed", CorrelationID: f.Task.CorrelationID,
			Timestamp: f.Failure.FailedAt, Headers: make(map[string]any, 2),
		},
		Body: messages.AppendAssignmentFailed(nil, f),
	}
	AddTrace(p.Headers, f.Task)
	return p
}

// Completed returns task.completed, but for its token.
func Completed(f *coordinator.Completed) bus.Publication {
	p := bus.Publication{
		Exchange: bus.ExchangeEvents, Optional: true,
		Key: schemas.TaskCompleted + "." + string(f.Result.Agent),
		Properties: bus.Properties{
			ContentType: ContentJSON, Type: schemas.TaskCompleted, AppID: AppID,
			MessageID: string(f.Result.Task) + ".completed", CorrelationID: TraceOf(f), Timestamp: f.At,
		},
		Body: messages.AppendTaskCompleted(make([]byte, 0, 512), f),
	}
	if f.Task != nil && f.Task.TraceParent != "" {
		p.Headers = make(map[string]any, 2)
		AddTrace(p.Headers, f.Task)
	}
	return p
}

// Answer returns the task.completed for the producer's own queue, but for its token: what Completed gives, and the
// output.
func Answer(event bus.Publication, o *coordinator.Output, queue string) bus.Publication {
	const names = 512 // of the fields of the output
	answer := event
	answer.Exchange, answer.Key = "", queue
	answer.Body = messages.AppendAnswer(make([]byte, 0, len(event.Body)+names+o.Bytes()), event.Body, o)
	return answer
}

// Progress returns the event of progress, and, if queue is not empty, its copy for the producer, which alone has the
// data. The copy does not lie in its queue for long: what the producer has not read by then says nothing any more, and
// there is to be room for the task's end.
func Progress(f *coordinator.Progressed, queue string, now time.Time) []bus.Publication {
	p, trace := f.Progress, f.Task.CorrelationID
	id := string(p.Task) + "." + strconv.FormatInt(p.Timestamp.UnixMicro(), 36) + ".progress"
	key := schemas.TaskProgress + "." + string(p.Agent)
	event := Event(key, schemas.TaskProgress, id, trace, messages.AppendTaskProgress(nil, p, trace, false), now)
	if queue == "" {
		return []bus.Publication{event}
	}
	reply := event
	reply.Exchange, reply.Key, reply.Expiration = "", queue, ReplyLife
	reply.Body = messages.AppendTaskProgress(nil, p, trace, true)
	return []bus.Publication{reply, event}
}

// TraceOf returns the trace id under which a task ended.
func TraceOf(f *coordinator.Completed) string {
	if f.Task != nil {
		return f.Task.CorrelationID
	}
	return f.Result.TraceID
}

// AddTrace passes the task's trace context on.
func AddTrace(headers map[string]any, t *coordinator.Task) {
	if t.TraceParent != "" {
		headers[messages.HeaderTraceParent] = t.TraceParent
	}
	if t.TraceState != "" {
		headers[messages.HeaderTraceState] = t.TraceState
	}
}

// Event returns an optional event, of which the confirm is not awaited.
func Event(key, messageType, id, traceID string, body []byte, now time.Time) bus.Publication {
	return bus.Publication{
		Token: Ignored, Exchange: bus.ExchangeEvents, Key: key, Optional: true,
		Properties: bus.Properties{
			ContentType: ContentJSON, Type: messageType, AppID: AppID,
			MessageID: id, CorrelationID: traceID, Timestamp: now,
		},
		Body: body,
	}
}

// Move returns a task on its way to its lane, but for its token: the bytes that came, with the properties that
// matter when it comes out again. Of its headers only the trace is kept, as in task.dead.
func Move(m *coordinator.MoveToLane, d *bus.Delivery) bus.Publication {
	p := bus.Publication{Key: bus.LaneQueue(m.Lane).Name, Properties: d.Properties, Body: d.Body}
	p.CorrelationID, p.UserID, p.Expiration = m.Task.CorrelationID, "", 0
	p.Headers = map[string]any{messages.HeaderAcceptedAt: m.Task.AcceptedAt.Format(time.RFC3339Nano)}
	if m.MaybeDuplicate {
		p.Headers[messages.HeaderMaybeDuplicate] = true
	}
	AddTrace(p.Headers, m.Task)
	return p
}

// Parked returns the original of a message on its way to task.dead, with the reason
// in its headers. Of its own headers only what is ours or the trace is kept:
// the broker would interpret others (x-death).
func Parked(d *bus.Delivery, reason coordinator.Reason, text string, now time.Time) bus.Publication {
	p := bus.Publication{Key: bus.QueueDead, Properties: d.Properties, Body: d.Body}
	p.UserID, p.Expiration, p.Timestamp = "", 0, now
	p.Headers = map[string]any{
		messages.HeaderReason:      text,
		messages.HeaderReasonCode:  reason.String(),
		messages.HeaderSourceQueue: d.Queue,
	}
	for _, name := range []string{messages.HeaderTask, messages.HeaderTried, messages.HeaderDeathReason,
		messages.HeaderTraceParent, messages.HeaderTraceState} {
		if v := messages.TextHeader(d.Headers, name); v != "" {
			p.Headers[name] = v
		}
	}
	return p
}

// Stub returns a note in the place of a message that cannot be parked as it was to be, with its size and hash.
func Stub(parked *bus.Publication, d *bus.Delivery, now time.Time) bus.Publication {
	reason, _ := parked.Headers[messages.HeaderReason].(string)
	code, _ := parked.Headers[messages.HeaderReasonCode].(string)
	return bus.Publication{
		Key: bus.QueueDead,
		Properties: bus.Properties{
			ContentType: ContentJSON, Type: TypeStub, AppID: AppID, Timestamp: now,
			Headers: map[string]any{messages.HeaderReason: reason, messages.HeaderReasonCode: code,
				messages.HeaderSourceQueue: d.Queue},
		},
		Body: fmt.Appendf(nil, `{"message_type":%q,"queue":%q,"bytes":%d,"xxhash64":"%016x"}`, TypeStub, d.Queue, len(d.Body),
			xxhash.Sum64(d.Body)),
	}
}

// Control returns a message to an agent's control queue, but for its body. It is mandatory:
// an agent without that queue cannot be reached.
func (s Sender) Control(agent coordinator.AgentID, messageType, id, traceID string) bus.Publication {
	return bus.Publication{
		Exchange: bus.ExchangeControl, Key: string(agent),
		Properties: bus.Properties{
			ContentType: ContentJSON, Type: messageType, AppID: AppID, UserID: s.User,
			MessageID: id, CorrelationID: traceID, Timestamp: s.At,
		},
	}
}

// Withdrawal returns the order to drop or stop a dispatch, but for its token.
func (s Sender) Withdrawal(w *coordinator.Withdraw) bus.Publication {
	p := s.Control(w.Agent, schemas.TaskCancel, string(w.Task)+".cancel", w.TraceID)
	p.Body = messages.AppendTaskCancel(nil, w)
	return p
}

// Reply returns the answer to an agent's bid or claim; false: the effect is none. These messages are optional: a lost
// one changes nothing (a dispatch comes all the same, and an agent that claims asks again), so the broker need not
// return those that cannot be routed, their confirms are not awaited, and those of dispatches do not wait behind them.
func (s Sender) Reply(f coordinator.Effect) (bus.Publication, bool) {
	var p bus.Publication
	switch f := f.(type) {
	case coordinator.Award:
		p = s.Control(f.Agent, schemas.TaskAwarded, f.AuctionID+".awarded", f.TraceID)
		p.Body = messages.AppendTaskAwarded(nil, &messages.TaskAwarded{
			TaskID: f.Task, AuctionID: f.AuctionID, AgentID: f.Agent, DispatchID: f.DispatchID, CorrelationID: f.TraceID,
		})
	case coordinator.RejectBid:
		p = s.Control(f.Agent, schemas.BidRejected, cmp.Or(f.AuctionID, string(f.Task))+".bid_rejected", f.TraceID)
		p.Body = messages.AppendBidRejected(nil, &messages.BidRejected{
			TaskID: f.Task, AuctionID: f.AuctionID, AgentID: f.Agent,
			Reason: messages.BidReason(f.Reason.String()), CorrelationID: f.TraceID,
		})
	case coordinator.ClaimAnswered:
		p = s.Control(f.Agent, schemas.TaskGranted, f.ClaimID+".granted", "")
		p.Body = messages.AppendTaskGranted(nil, &messages.TaskGranted{
			AgentID: f.Agent, ClaimID: f.ClaimID, Granted: f.Granted, Reason: f.Limit,
			Fleet: messages.GrantFleet{
				Agents: f.Fleet.Agents, PendingItems: f.Fleet.Pending, UnclaimedItems: f.Fleet.Unclaimed,
				CapacityItemsPerSecond: f.Fleet.Capacity, TargetDrainSeconds: f.Fleet.Target.Seconds(),
				FairShareItems: f.Fleet.FairShare,
			},
		})
	case coordinator.ClaimsForgotten:
		p = s.Control(f.Agent, schemas.TaskGranted, string(f.Agent)+".new_session", "")
		p.Body = messages.AppendTaskGranted(nil, &messages.TaskGranted{AgentID: f.Agent, ClaimID: messages.AnyClaim,
			Reason: "new_session"})
	default:
		return p, false
	}
	p.Token, p.Optional, p.Expiration = Ignored, true, ReplyLife
	return p, true
}

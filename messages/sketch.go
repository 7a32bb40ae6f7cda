package messages

import (
	"taskbus/coordinator"
	"taskbus/schemas"
)

// Sketch is what can be read of a message that may be of no use otherwise: texts as they stand there, at most 128
// bytes each and without control characters, and perhaps no valid ids at all. What cannot be read is empty.
type Sketch struct {
	MessageType, TaskID, TaskType, CorrelationID, ReplyTo string
}

// sketched are the fields of Sketch.
var sketched = []string{"correlation_id", "message_type", "reply_to", "task_id", "task_type"}

// sketchFactor is how many times the size of the largest message is looked through for a sketch: what is sent at
// will must not cost the more the larger it is.
const sketchFactor = 4

// Sketch reads as much of a body as its first fault, or the bounds of depth, number and size (four times that of the
// largest message), let it.
func (d *Decoder) Sketch(body []byte) Sketch {
	s := d.scanner(body[:min(len(body), sketchFactor*d.limits.MaxBytes)], d.limits.dispatched())
	defer d.release(s)
	m := s.members(sketched)
	text := func(raw []byte) string { return Clean(unquote(raw), maxID) }
	return Sketch{
		MessageType: text(m.messageType), TaskID: text(m.taskID), TaskType: text(m.taskType),
		CorrelationID: text(m.traceID), ReplyTo: text(m.replyTo),
	}
}

// AppendTaskAssign appends the task.assign message that asks for t once more, as its producer did. The payload's
// bytes go out as they are; what its producer gave in properties and headers of AMQP is not in it.
func AppendTaskAssign(dst []byte, t *coordinator.Task, payload []byte) []byte {
	dst = append(dst, '{')
	dst = appendField(dst, "message_type", schemas.TaskAssign)
	dst = appendField(dst, "task_id", t.ID)
	dst = appendField(dst, "task_type", t.Type)
	dst = appendInt(dst, "priority", int(t.Priority))
	dst = appendCarried(dst, &t.Carried)
	dst = appendOptional(dst, "description", t.Description)
	if !t.Deadline.IsZero() {
		dst = appendTime(dst, "deadline", t.Deadline)
	}
	if t.MaxWait > 0 {
		dst = appendSeconds(dst, "max_wait_seconds", t.MaxWait)
	}
	dst = appendTaskOptions(dst, t)
	dst = appendName(dst, "payload")
	if len(payload) == 0 {
		payload = []byte("{}")
	}
	return append(append(dst, payload...), '}')
}

package proxy

import (
	"fmt"
	"strings"
	"testing"
)

// script plays frames into a trace by hand: the reader sees what the wire carries.
type script struct {
	trace *Trace
	conn  *traced
}

func newScript() *script {
	t := NewTrace()
	return &script{t, t.connection()}
}

func (s *script) frames(frames ...*Frame) {
	for _, f := range frames {
		s.conn.record(f)
	}
}

// content is a method with its header and its body in two frames.
func (s *script) content(f *Frame, kind, id, body string) {
	f.Kind = KindMethod
	half := len(body) / 2
	s.frames(f,
		&Frame{From: f.From, Kind: KindHeader, Channel: f.Channel, Type: kind, MessageID: id, BodySize: uint64(len(body))},
		&Frame{From: f.From, Kind: KindBody, Channel: f.Channel, payload: []byte(body[:half])},
		&Frame{From: f.From, Kind: KindBody, Channel: f.Channel, payload: []byte(body[half:])})
}

func (s *script) method(from Side, ch uint16, m Method, tag uint64, multiple bool) {
	s.frames(&Frame{From: from, Kind: KindMethod, Channel: ch, Method: m, Tag: tag, Multiple: multiple})
}

const consuming, publishing, journalling = 1, 2, 3

func (s *script) deliver(queue string, tag uint64, body string) {
	s.content(&Frame{From: Server, Method: Deliver, Channel: consuming, Queue: queue, Tag: tag}, "", "", body)
}

func (s *script) ack(tag uint64)   { s.method(Client, consuming, Ack, tag, false) }
func (s *script) ackTo(tag uint64) { s.method(Client, consuming, Ack, tag, true) }

func (s *script) dispatch(id string, attempt int) {
	s.content(&Frame{From: Client, Method: Publish, Channel: publishing, Key: "agent.a1"}, "task.dispatch",
		fmt.Sprint(id, ".", attempt), dispatched(id, attempt))
}

func dispatched(id string, attempt int) string {
	return fmt.Sprintf(`{"message_type":"task.dispatch","task_id":%q,"attempt":%d}`, id, attempt)
}

func (s *script) fail(id string) {
	s.content(&Frame{From: Client, Method: Publish, Channel: publishing, Exchange: exchangeEvents,
		Key: "assignment.failed.no_agents_online"},
		"assignment.failed", id, `{"task_id":"`+id+`"}`)
}

func (s *script) move(id string) {
	s.content(&Frame{From: Client, Method: Publish, Channel: publishing, Key: prefixLane + "x"}, "task.assign", id,
		assigned(id))
}

func (s *script) park(body string) {
	s.content(&Frame{From: Client, Method: Publish, Channel: publishing, Key: queueDead}, "", "", body)
}

func (s *script) returned(id string) {
	s.content(&Frame{From: Server, Method: Return, Channel: publishing, Key: "agent.a1"}, "task.dispatch", id, "{}")
}

func (s *script) confirms()          { s.method(Client, publishing, ConfirmSelect, 0, false) }
func (s *script) confirm(tag uint64) { s.method(Server, publishing, Ack, tag, false) }
func (s *script) nack(tag uint64)    { s.method(Server, publishing, Nack, tag, false) }

func assigned(id string) string {
	return `{"message_type":"task.assign","task_id":"` + id + `","attempt":9}`
}

// Each row is a history on the wire and the promises that it breaks.
func TestTraceFindsWhatIsBroken(t *testing.T) {
	const nothing = ""
	for _, tt := range []struct {
		name string
		play func(s *script)
		want string
	}{
		{"dispatch, confirm, ack", func(s *script) {
			s.deliver(queueAssign, 1, assigned("t"))
			s.dispatch("t", 1)
			s.confirm(1)
			s.ack(1)
		}, nothing},
		{"ack before the confirm", func(s *script) {
			s.deliver(queueAssign, 1, assigned("t"))
			s.dispatch("t", 1)
			s.ack(1)
			s.confirm(1)
		}, "S2"},
		{"moved to a lane, and taken back", func(s *script) {
			s.deliver(queueAssign, 1, assigned("t"))
			s.move("t")
			s.confirm(1)
			s.ack(1)
			s.deliver(prefixLane+"x", 2, assigned("t"))
			s.dispatch("t", 1)
			s.confirm(2)
			s.ack(2)
		}, nothing},
		{"ack before the move is confirmed", func(s *script) {
			s.deliver(queueAssign, 1, assigned("t"))
			s.move("t")
			s.ack(1)
		}, "S2"},
		{"out of a lane and lost", func(s *script) {
			s.deliver(queueAssign, 1, assigned("t"))
			s.move("t")
			s.confirm(1)
			s.ack(1)
			s.deliver(prefixLane+"x", 2, assigned("t"))
			s.ack(2)
		}, "S2"},
		{"to the end of its lane", func(s *script) {
			s.deliver(prefixLane+"x", 1, assigned("t"))
			s.move("t")
			s.confirm(1)
			s.ack(1)
		}, nothing},
		{"ack for nothing", func(s *script) { s.deliver(queueAssign, 1, assigned("t")); s.ack(1) }, "S2"},
		{"ack of two, confirm of one", func(s *script) {
			s.deliver(queueAssign, 1, assigned("t"))
			s.deliver(queueAssign, 2, assigned("u"))
			s.dispatch("u", 1)
			s.confirm(1)
			s.ackTo(2)
		}, "S2"},
		{"confirm of two at once", func(s *script) {
			s.deliver(queueAssign, 1, assigned("t"))
			s.deliver(queueAssign, 2, assigned("u"))
			s.dispatch("t", 1)
			s.dispatch("u", 1)
			s.method(Server, publishing, Ack, 2, true)
			s.ackTo(2)
		}, nothing},
		{"a dispatch that came back is no outcome", func(s *script) {
			s.deliver(queueAssign, 1, assigned("t"))
			s.dispatch("t", 1)
			s.returned("t.1")
			s.confirm(1)
			s.ack(1)
		}, "S2"},
		{"but the failure after it is", func(s *script) {
			s.deliver(queueAssign, 1, assigned("t"))
			s.dispatch("t", 1)
			s.returned("t.1")
			s.confirm(1)
			s.fail("t")
			s.confirm(2)
			s.ack(1)
		}, nothing},
		{"a dispatch that a full queue refuses is no outcome", func(s *script) {
			s.deliver(queueAssign, 1, assigned("t"))
			s.dispatch("t", 1)
			s.nack(1)
			s.ack(1)
		}, "S2"},
		{"a copy may go while another is held", func(s *script) {
			s.deliver(queueAssign, 1, assigned("t"))
			s.deliver(queueAssign, 2, assigned("t"))
			s.ack(2)
			s.dispatch("t", 1)
			s.confirm(1)
			s.ack(1)
		}, nothing},
		{"but not both", func(s *script) {
			s.deliver(queueAssign, 1, assigned("t"))
			s.deliver(queueAssign, 2, assigned("t"))
			s.ackTo(2)
		}, "S2"},
		{"a parked message is found by its bytes", func(s *script) {
			s.deliver(queueAssign, 1, "not JSON")
			s.park("not JSON")
			s.confirm(1)
			s.ack(1)
		}, nothing},
		{"other bytes are another message", func(s *script) {
			s.deliver(queueAssign, 1, "not JSON")
			s.park("not json")
			s.confirm(1)
			s.ack(1)
		}, "S2"},
		{"what comes back needs a dispatch beyond its attempt", func(s *script) {
			s.dispatch("t", 1)
			s.confirm(1)
			s.deliver(queueReassign, 1, dispatched("t", 1))
			s.ack(1)
		}, "S2"},
		{"and has one", func(s *script) {
			s.deliver(queueReassign, 1, dispatched("t", 1))
			s.dispatch("t", 2)
			s.confirm(1)
			s.ack(1)
		}, nothing},
		{"or has ended by its agent's word", func(s *script) {
			s.deliver(streamResult, 1, `{"task_id":"t"}`)
			s.deliver(queueReassign, 2, dispatched("t", 1))
			s.ack(2)
		}, nothing},
		{"what is given back needs nothing", func(s *script) {
			s.deliver(queueAssign, 1, assigned("t"))
			s.method(Client, consuming, Nack, 1, false)
			s.deliver(queueAssign, 2, assigned("u"))
			s.method(Client, consuming, Reject, 2, false)
		}, nothing},
		{"an ack twice", func(s *script) {
			s.deliver("agent.status", 1, "{}")
			s.ack(1)
			s.ack(1)
		}, "S15"},
		{"an ack of what was never delivered", func(s *script) { s.ackTo(7) }, "S15"},
		{"an ack on another session", func(s *script) {
			s.deliver(queueAssign, 1, assigned("t"))
			s.fail("t")
			s.confirm(1)
			s.conn.ended()
			s.conn = s.trace.connection()
			s.ack(1)
		}, "S15"},
		{"what the end of a session leaves behind is void", func(s *script) {
			s.deliver(queueAssign, 1, assigned("t"))
			s.conn.ended()
			s.ack(1)
		}, nothing},
		{"a session's end gives deliveries back: the next one's ack is the last", func(s *script) {
			s.deliver(queueAssign, 1, assigned("t"))
			s.conn.ended()
			s.conn = s.trace.connection()
			s.deliver(queueAssign, 1, assigned("t"))
			s.ack(1)
		}, "S2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScript()
			s.confirms()
			tt.play(s)
			if got := broken(s.trace); got != tt.want {
				t.Errorf("broken: %q, want %q: %v", got, tt.want, s.trace.Violations())
			}
		})
	}
}

func broken(t *Trace) string {
	var names []string
	for _, v := range t.Violations() {
		names = append(names, v.Invariant)
	}
	return strings.Join(names, " ")
}

// No journal confirm, no dispatch.
func TestTraceHoldsDispatchesToTheJournal(t *testing.T) {
	journal := func(s *script) {
		s.content(&Frame{From: Client, Method: Publish, Channel: journalling, Key: streamJournal}, "batch", "", "xx")
	}
	for _, tt := range []struct {
		name string
		play func(s *script)
		want string
	}{
		{"written, confirmed, dispatched", func(s *script) {
			s.deliver(queueAssign, 1, assigned("t"))
			journal(s)
			s.method(Server, journalling, Ack, 1, false)
			s.dispatch("t", 1)
		}, ""},
		{"dispatched before the confirm", func(s *script) {
			s.deliver(queueAssign, 1, assigned("t"))
			journal(s)
			s.dispatch("t", 1)
		}, "WAL"},
		{"what was written before it came says nothing of it", func(s *script) {
			journal(s)
			s.deliver(queueAssign, 1, assigned("t"))
			s.method(Server, journalling, Ack, 1, false)
			s.dispatch("t", 1)
		}, "WAL"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScript()
			s.trace.Journal = true
			s.method(Client, journalling, ConfirmSelect, 0, false)
			tt.play(s)
			if got := broken(s.trace); got != tt.want {
				t.Errorf("broken: %q, want %q: %v", got, tt.want, s.trace.Violations())
			}
		})
	}
}

func TestTraceCounts(t *testing.T) {
	s := newScript()
	s.confirms()
	s.deliver(queueAssign, 1, assigned("t"))
	s.deliver(queueAssign, 2, assigned("u"))
	s.deliver("agent.status", 3, "{}")
	s.dispatch("t", 1)
	s.dispatch("u", 1)
	s.fail("u")
	s.returned("u.1")
	s.method(Server, publishing, Ack, 3, true)
	s.ackTo(3)
	c := s.trace.Counts()
	if c.Delivered != 2 || c.Acked != 2 || c.Returned != 1 || c.Published["agent.a1"] != 2 ||
		c.ConfirmedTo("agent.") != 1 || c.ConfirmedTo("assignment.failed") != 1 || c.Connections != 1 {
		t.Errorf("%+v", c)
	}
}

package service

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/view"
	"taskbus/messages"
	"taskbus/tests/support/membus"
)

// deadKeys lists task.dead and returns the keys of what is selected.
func (r *rig) deadKeys(f view.DeadFilter) []string {
	r.t.Helper()
	f.Limit = httpapi.MaxDeadLimit
	l, err := r.service.DeadLetters(r.t.Context(), f)
	if err != nil {
		r.t.Fatal(err)
	}
	keys := make([]string, len(l.Messages))
	for i, m := range l.Messages {
		keys[i] = m.Key
	}
	return keys
}

// What lies in task.dead is listed with the reason, can be selected, and is there afterwards as before.
func TestDeadLettersAreListed(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		if keys := r.deadKeys(view.DeadFilter{}); len(keys) != 0 {
			t.Errorf("an empty queue has %v", keys)
		}
		r.publish(bus.QueueAssign, "no JSON", func(p *bus.Properties) { p.AppID, p.MessageID = "shop", "m-1" })
		r.task("t-2", "build", `,"priority":9`)
		r.send(bus.QueueDead, taskBody("t-3", "train", ""), func(p *bus.Properties) {
			p.Headers = map[string]any{messages.HeaderDeathReason: "delivery_limit",
				messages.HeaderDeathQueue: bus.QueueAssignHigh}
		})
		r.settle()
		l, err := r.service.DeadLetters(r.t.Context(), view.DeadFilter{Limit: 2})
		if err != nil || l.Scanned != 3 || l.Matched != 3 || len(l.Messages) != 2 || l.More {
			t.Fatalf("listed %+v, %v; want 2 of 3", l, err)
		}
		if m := l.Messages[0]; m.ReasonCode != "invalid_message" || !strings.Contains(m.Reason, "expected a JSON object") ||
			m.SourceQueue != bus.QueueAssign ||
			m.AppID != "shop" || m.MessageID != "m-1" || m.Bytes != len("no JSON") || m.Body != "" ||
			m.ResendTo != bus.QueueAssign {
			t.Errorf("what is no JSON is described as %+v", m)
		}
		for _, tc := range []struct {
			filter view.DeadFilter
			want   int
		}{
			{view.DeadFilter{Reason: "invalid_message"}, 2},
			{view.DeadFilter{Reason: "delivery_limit"}, 1},
			{view.DeadFilter{Reason: "poisoned"}, 0},
			{view.DeadFilter{Type: "build"}, 1},
			{view.DeadFilter{Type: "task.assign"}, 2},
			{view.DeadFilter{ID: "t-3"}, 1},
			{view.DeadFilter{ID: "m-1"}, 1},
			{view.DeadFilter{ID: l.Messages[1].Key}, 1},
			{view.DeadFilter{ID: "t-3", Reason: "invalid_message"}, 0},
		} {
			if got := r.deadKeys(tc.filter); len(got) != tc.want {
				t.Errorf("%+v selects %d, want %d", tc.filter, len(got), tc.want)
			}
		}
		m, found, err := r.service.DeadLetter(r.t.Context(), r.deadKeys(view.DeadFilter{ID: "t-3"})[0], true)
		if err != nil || !found || m.Body != taskBody("t-3", "train", "") || m.ResendTo != bus.QueueAssignHigh ||
			!strings.Contains(m.Reason, "never acknowledged") {
			t.Errorf("shown %+v, %t, %v", m, found, err)
		}
		if m, found, err = r.service.DeadLetter(r.t.Context(), m.Key, false); err != nil || !found || m.Body != "" {
			t.Errorf("the body is shown although it was not asked for: %+v, %t, %v", m, found, err)
		}
		if _, found, err = r.service.DeadLetter(r.t.Context(), "0123456789abcdef", true); err != nil || found {
			t.Errorf("found what is not there: %v", err)
		}
		r.settle()
		if n := len(r.in(bus.QueueDead)); n != 3 || r.broker.Unacked(bus.QueueDead) != 0 {
			t.Errorf("%d messages afterwards, %d of them unacknowledged; want 3 and none", n, r.broker.Unacked(bus.QueueDead))
		}
	})
}

// A poisoned task that is sent again begins anew: with its payload byte for byte, all its tries, and any agent.
func TestPoisonedTaskIsSentAgain(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		task := taskNamed("t-1", time.Now())
		task.ContentHash, task.ReplyTo, task.CorrelationID, task.Type = 7, "shop.answers", "trace-1", "build"
		d := dispatchOf(task, "a1", 3, time.Now())
		d.Queue, d.Timeout, d.Tried = "agent.a1", time.Minute, []coordinator.AgentID{"x1", "x2"}
		d.Failed = d.Tried // and now a1: three are poisoned_after's default
		const payload = `{"n":12345678901234567890, "of":"<t-1>"}`
		r.publish(bus.QueueReassign, string(messages.AppendDispatch(nil, d, []byte(payload))), func(p *bus.Properties) {
			p.Headers = map[string]any{
				messages.HeaderTask: messages.EncodeTaskHeader(task), messages.HeaderTried: messages.EncodeTriedHeader(d),
				messages.HeaderDeathReason: "delivery_limit",
			}
		})
		keys := r.deadKeys(view.DeadFilter{Reason: "poisoned", Type: "build", ID: "t-1"})
		if len(keys) != 1 {
			t.Fatalf("in task.dead: %v; log:\n%s", keys, r.log)
		}
		r.heartbeat("a1", 0)
		done, err := r.service.ResendDead(r.t.Context(), append(keys, "0123456789abcdef"))
		if err != nil || !slices.Equal(done.Done, keys) || len(done.Kept) != 1 ||
			!strings.Contains(done.Kept[0].Why, "any more") {
			t.Fatalf("sent again: %+v, %v", done, err)
		}
		r.settle()
		r.empty(bus.QueueDead)
		m := r.only("agent.a1")
		if m.text("task_id") != "t-1" || m.text("correlation_id") != "trace-1" ||
			!strings.Contains(string(m.Body), `"payload":`+payload) {
			t.Errorf("dispatched %s", m.Body)
		}
		if header := messages.TextHeader(m.Headers, messages.HeaderTask); !strings.Contains(header,
			`"reply_to":"shop.answers"`) ||
			messages.TextHeader(m.Headers, messages.HeaderTried) != "" {
			t.Errorf("with the headers %v", m.Headers)
		}
	})
}

// What is sent again stands in its queue before it leaves task.dead; what cannot be sent stays.
func TestDeadLettersAreSentAgainOrStay(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.publish(bus.QueueRequest, `{"message_type":"task.cancel","task_id":"t 1"}`)
		r.send(bus.QueueDead, `{"hello":"world"}`,
			func(p *bus.Properties) { p.Headers = map[string]any{messages.HeaderDeathQueue: "agent.other"} })
		r.settle()
		keys := r.deadKeys(view.DeadFilter{})
		if len(keys) != 2 {
			t.Fatalf("in task.dead: %v", keys)
		}
		done, err := r.service.ResendDead(r.t.Context(), keys)
		if err != nil || len(done.Done) != 1 || len(done.Kept) != 1 ||
			!strings.Contains(done.Kept[0].Why, "neither a task nor a request") {
			t.Errorf("sent again: %+v, %v", done, err)
		}
		r.settle()
		// The cancel is as wrong as before, and comes back.
		if n := len(r.in(bus.QueueDead)); n != 2 {
			t.Errorf("%d messages in task.dead, want the foreign one and the cancel", n)
		}
		if done, err := r.service.DropDead(r.t.Context(),
			r.deadKeys(view.DeadFilter{Reason: "invalid_message"})); err != nil || len(done.Done) != 1 {
			t.Errorf("dropped: %+v, %v", done, err)
		}
		r.settle()
		if m := r.only(bus.QueueDead); string(m.Body) != `{"hello":"world"}` {
			t.Errorf("left is %s", m.Body)
		}
	})
}

// Each look is a delivery, and a quorum queue drops what was delivered too often: before that the message is put
// into the queue anew, under the same key.
func TestDeadLetterIsRenewedBeforeItsQueueDropsIt(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.send(bus.QueueDead, taskBody("t-1", "build", ""), func(p *bus.Properties) {
			p.Headers = map[string]any{messages.HeaderDeathReason: "maxlen", messages.HeaderSourceQueue: bus.QueueAssign,
				"x-delivery-count": int64(500)}
		})
		r.settle()
		before := r.deadKeys(view.DeadFilter{})
		r.settle()
		m := r.only(bus.QueueDead)
		if _, counted := m.Headers["x-delivery-count"]; counted ||
			messages.TextHeader(m.Headers, messages.HeaderDeathReason) != "maxlen" ||
			m.Redelivered {
			t.Errorf("not renewed: %v", m.Headers)
		}
		if after := r.deadKeys(view.DeadFilter{}); !slices.Equal(before, after) || len(after) != 1 {
			t.Errorf("the key was %v and is %v", before, after)
		}
	})
}

// A coordinator that dies between the confirm of what it has sent again and the acknowledgement leaves a copy, and
// loses nothing.
func TestDeadLetterSurvivesTheEndOfItsSession(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.task("t-1", "build", `,"priority":9`) // sent again it is as wrong as before, and comes back
		keys := r.deadKeys(view.DeadFilter{ID: "t-1"})
		var confirmed, cut atomic.Bool
		r.broker.SetConfirm(func(p bus.Publication) membus.Reply {
			if p.Key == bus.QueueAssign {
				confirmed.Store(true)
			}
			return membus.Answer
		})
		r.broker.SetBetween(func(step string) {
			if step == "ack" && confirmed.Load() && cut.CompareAndSwap(false, true) {
				r.broker.Cut()
			}
		})
		if _, err := r.service.ResendDead(r.t.Context(), keys); err != nil {
			t.Fatal(err)
		}
		r.pass(time.Minute)
		if r.connect(); !cut.Load() {
			t.Fatal("the session went on")
		}
		// What was not acknowledged is there, and what was sent again.
		if keys := r.deadKeys(view.DeadFilter{ID: "t-1"}); len(keys) < 2 {
			t.Errorf("the next session finds %v, want two", keys)
		}
	})
}

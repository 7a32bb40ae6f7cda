package service

import (
	"fmt"
	"strings"
	"testing"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/view"
	"taskbus/messages"
)

// unknownLines are the log lines about unknown fields.
func (r *rig) unknownLines() (lines []string) {
	for line := range strings.Lines(r.log.String()) {
		if strings.Contains(line, "a field of the message is not known") {
			lines = append(lines, line)
		}
	}
	return lines
}

// A misspelt field has no effect, is counted each time, and told of once for each producer, with the name that was
// meant.
func TestUnknownFieldsAreToldOfOnce(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		from := func(app, replyTo string) func(*bus.Properties) {
			return func(p *bus.Properties) { p.AppID, p.ReplyTo = app, replyTo }
		}
		r.task("t-1", "build", `,"prioritiy":3`, from("shop", "q-1"))
		r.task("t-2", "build", `,"prioritiy":3`, from("shop", "q-2")) // the same program
		r.task("t-3", "build", `,"timeout":5`, from("shop", ""))      // another field
		r.task("t-4", "build", `,"prioritiy":3`, from("", "q-1"))     // another producer, known by its queue alone
		r.task("t-5", "build", `,"prioritiy":3`, from("", "q-1"))
		r.publish(bus.StreamStatus,
			`{"message_type":"agent.status","agent_id":"a1","status":"ready","current_load":0,"active_tasks":0,`+
				`"available_capacity":1,"timestamp":"2026-03-01T12:00:00Z","capacity":3}`)
		for range 2 {
			r.publish(bus.StreamResult,
				`{"message_type":"task.result","agent_id":"a1","task_id":"t-0","outcome":"failed","correlation_id":"c",`+
					`"timestamp":"2026-03-01T12:00:00Z","eror":"x"}`)
		}
		lines := r.unknownLines()
		if len(lines) != 5 {
			t.Fatalf("%d lines, want 5:\n%s", len(lines), strings.Join(lines, ""))
		}
		for i, want := range []string{
			`"message_type":"task.assign","field":"prioritiy","did_you_mean":"did you mean priority?","app_id":"shop",` +
				`"reply_to":"q-1"`,
			`"field":"timeout","did_you_mean":"did you mean timeout_seconds?","app_id":"shop"`,
			`"field":"prioritiy","did_you_mean":"did you mean priority?","reply_to":"q-1"`,
			`"message_type":"agent.status","field":"capacity"`,
			`"message_type":"task.result","field":"eror","did_you_mean":"did you mean error?","agent_id":"a1"`,
		} {
			if !strings.Contains(lines[i], want) {
				t.Errorf("line %d is %swant %s", i+1, lines[i], want)
			}
		}
		listed := r.status().UnknownFields
		if len(listed) != 5 || listed[0] != (view.UnknownField{MessageType: "task.assign", Field: "prioritiy",
			DidYouMean: "did you mean priority?", Producer: "shop"}) || listed[3].Producer != "a1" {
			t.Errorf("/status lists %+v", listed)
		}
		for of, want := range map[string]float64{"task.assign": 5, "agent.status": 1, "task.result": 2} {
			if got := scraped(t, r.service.options.Registry)[`taskbus_unknown_fields_total{type="`+of+`"}`]; got != want {
				t.Errorf("%g messages of %s are counted, want %g", got, of, want)
			}
		}
		if a := r.agent("a1"); a.State != "online" {
			t.Errorf("the agent whose heartbeat has an unknown field is %s", a.State)
		}
	})
}

// What is remembered of misspellings is bounded, and what comes then is still counted.
func TestUnknownFieldsAreRememberedWithinBounds(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		const most, sent = 1000, 1010
		for i := range sent {
			r.send(bus.QueueRequest, fmt.Sprintf(`{"message_type":"task.cancel","task_id":"t","field-%d":1}`, i))
		}
		r.settle()
		if n := len(r.unknownLines()); n != most {
			t.Errorf("%d lines, want %d", n, most)
		}
		if got := scraped(t, r.service.options.Registry)[`taskbus_unknown_fields_total{type="task.cancel"}`]; got != sent {
			t.Errorf("%g are counted, want %d", got, sent)
		}
	})
}

// Where messages are held to their schemas strictly the producer hears what it has misspelt, and agents go on.
func TestStrictMessages(t *testing.T) {
	inRig(t, fleet+"\n", func(r *rig) {
		c := parseConfig(t, strings.Replace(fleet, "global_settings: {", "global_settings: {strict_messages: true, ", 1))
		r.service.config.Store(c)
		r.task("t-1", "build", `,"prioritiy":3,"correlation_id":"c-1"`)
		m := r.only(bus.QueueFailed)
		if m.text("task_id") != "t-1" || m.text("correlation_id") != "c-1" || m.text("reason_code") != "invalid_message" ||
			m.text(
				"reason") != "/prioritiy: there is no such field of task.assign; did you mean priority? "+
				"(global_settings.strict_messages)" {
			t.Errorf("told %s", m.Body)
		}
		if dead := r.only(bus.QueueDead); dead.text("task_id") != "t-1" {
			t.Errorf("parked %s", dead.Body)
		}
		r.publish(bus.StreamStatus,
			`{"message_type":"agent.status","agent_id":"a1","status":"ready","current_load":0,"active_tasks":0,`+
				`"available_capacity":1,"timestamp":"2026-03-01T12:00:00Z","capacity":3}`)
		if a := r.agent("a1"); a.State != "online" {
			t.Errorf("a heartbeat is refused: %s", a.State)
		}
		r.task("t-2", "build", `,"priority":3`)
		d := r.only("agent.a1")
		r.publish(bus.StreamResult, fmt.Sprintf(
			`{"message_type":"task.result","agent_id":"a1","task_id":"t-2","dispatch_id":%q,"outcome":"succeeded",`+
				`"correlation_id":"c","timestamp":"2026-03-01T12:00:00Z","usgae":{}}`, d.text("dispatch_id")))
		if x := r.explained("t-2"); x.State != "succeeded" {
			t.Errorf("a result is refused: %+v", x)
		}
	})
}

// Whose message cannot be used hears of it by what else there is: an id in front of a body that is too large, the
// message id, the queue for answers with the correlation id.
func TestProducersHearOfWhatCannotBeUsed(t *testing.T) {
	large := `{"message_type":"task.assign","task_id":"t-large","task_type":"build","payload":{"x":"` +
		strings.Repeat("x", 2*messages.DefaultLimits().MaxBytes) + `"}}`
	for name, tc := range map[string]struct {
		body                          string
		messageID, correlation, reply string
		id, trace                     string // that the producer hears; an id that ends in - goes on with a key
		reason                        string
		task                          string // how /tasks shows it
	}{
		"too large": {body: large, reply: "answers", id: "t-large", reason: "more than the", task: "build 1"},
		"a blank in the id": {body: taskBody("my task", "build", `,"priority":3`), messageID: "m-1",
			correlation: "c-1", reply: "answers", id: "m-1", trace: "c-1", reason: "/task_id: expected", task: "build 3"},
		"no message id": {body: taskBody("my task", "build", ""), correlation: "c-1", reply: "answers",
			id: "invalid-", trace: "c-1", reason: "/task_id: expected", task: "build 1"},
		"a message id that is none": {body: "{", messageID: "a b", reply: "answers", id: "invalid-", reason: "not valid JSON",
			task: " 1"},
		"a correlation id alone": {body: "{", correlation: "c-1", id: "invalid-", trace: "c-1", reason: "not valid JSON",
			task: " 1"},
		"a byte order mark": {body: "\xef\xbb\xbf" + taskBody("t-1", "build", ""), id: "t-1",
			reason: "byte order mark", task: "build 1"},
		"a priority that is none": {body: taskBody("t-1", "build", `,"priority":"urgent"`), id: "t-1", reason: "/priority",
			task: "build -1"},
		"a priority out of range": {body: taskBody("t-1", "build", `,"priority":9`), id: "t-1", reason: "/priority",
			task: "build -1"},
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, fleet, func(r *rig) {
				s, err := r.broker.Open(r.t.Context(), bus.SessionSpec{Name: "producer", Topology: bus.Topology{
					Mode: bus.Declare, Queues: []bus.Queue{{Name: "answers", Kind: bus.Classic}},
				}})
				if err != nil {
					t.Fatal(err)
				}
				r.others = append(r.others, s)
				r.publish(bus.QueueAssign, tc.body, func(p *bus.Properties) {
					p.MessageID, p.CorrelationID, p.ReplyTo = tc.messageID, tc.correlation, tc.reply
				})
				m := r.only(bus.QueueFailed)
				keys := r.deadKeys(view.DeadFilter{})
				if len(keys) != 1 {
					t.Fatalf("task.dead has %v", keys)
				}
				want := tc.id
				if strings.HasSuffix(want, "-") {
					want += keys[0]
				}
				if m.text("task_id") != want || !strings.Contains(m.text("reason"), tc.reason) ||
					m.text("reason_code") != "invalid_message" {
					t.Errorf("told %s, want the id %s", m.Body, want)
				}
				if tc.trace != "" && (m.text("correlation_id") != tc.trace || m.CorrelationID != tc.trace) {
					t.Errorf("told by the correlation id %s", m.text("correlation_id"))
				}
				if n := len(r.broker.Messages("answers")); n != min(1, len(tc.reply)) {
					t.Errorf("%d copies in the producer's queue", n)
				}
				task, found := r.service.Task(r.t.Context(), want)
				if got := fmt.Sprint(task.Type, " ", task.Priority); !found || got != tc.task {
					t.Errorf("/tasks has %q, want %q", got, tc.task)
				}
			})
		})
	}
	t.Run("nothing to know it by", func(t *testing.T) {
		inRig(t, fleet, func(r *rig) {
			r.publish(bus.QueueAssign, "{")
			r.empty(bus.QueueFailed)
			r.only(bus.QueueDead)
		})
	})
}

// A message that was refused unread is explained by the fault alone: how it would be decided is not known.
func TestRefusedMessageIsExplained(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		r.task("badprio", "build", `,"priority":9`)
		x, found := r.service.Explain(r.t.Context(), "badprio")
		if !found || x.Type != "build" || x.ReasonCode != "invalid_message" || !strings.Contains(x.Reason, "/priority") {
			t.Errorf("explained %+v, %t", x, found)
		}
		if x.Now != nil || x.NowUnknown != "" || x.Explanation != nil {
			t.Errorf("it is said how it would be decided: %+v, %q", x.Now, x.NowUnknown)
		}
	})
}

// A question needs no more than what decides it, and says which of its fields have no effect.
func TestWhatIfNeedsATaskTypeAlone(t *testing.T) {
	inRig(t, fleet, func(r *rig) {
		r.heartbeat("a1", 0)
		for _, body := range []string{`{"task_type":"build"}`, ` { "task_type" : "build" , "prioritiy":3}`,
			taskBody("t-1", "build", "")} {
			p, err := r.service.WhatIf(r.t.Context(), []byte(body))
			if err != nil || p.Agent != "a1" || (len(p.Unknown) == 1) != strings.Contains(body, "prioritiy") {
				t.Errorf("%s: %+v, %v", body, p, err)
			}
			if len(p.Unknown) > 0 && p.Unknown[0] != "prioritiy did you mean priority?" {
				t.Errorf("%q", p.Unknown)
			}
		}
		for _, body := range []string{`{}`, `{"task_type":"build","task_id":"a b"}`, `[]`,
			`{"task_type":"build","task_type":"train"}`} {
			if _, err := r.service.WhatIf(r.t.Context(), []byte(body)); err == nil {
				t.Errorf("%s is answered", body)
			}
		}
	})
}

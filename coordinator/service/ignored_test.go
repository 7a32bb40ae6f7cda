package service

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/service/internal/outbox"
	"taskbus/schemas"
)

// request publishes to task.request by a key of the exchange, as a user; "" for none.
func (r *rig) request(key, user, messageType, body string) {
	r.t.Helper()
	err := r.outside.Publish(bus.Publication{
		Exchange: bus.ExchangeIn, Key: key, Body: []byte(body),
		Properties: bus.Properties{ContentType: outbox.ContentJSON, Type: messageType, UserID: user, MessageID: "m-1"},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.settle()
}

const (
	badBid = `{"message_type":"task.bid","task_id":"t-1","auction_id":"t-1.1","agent_id":"a1","fitness":2,` +
		`"active_tasks":2,"estimated_duration_seconds":1.5,"correlation_id":"trace-1","note":"hunter2"}`
	badClaim = `{"message_type":"task.claim","agent_id":"a1","claim_id":"c-1","max_items":0,"pending_items":3}`
)

// A bid or claim that is not valid is worth nothing a moment later: it is counted and
// logged, and not kept. Anything else on task.request that cannot be read may be a cancel, and is kept.
func TestInvalidBidsAndClaimsAreNotKept(t *testing.T) {
	const own = "task.request.a1"
	bad := func(from, to string) string {
		body := strings.Replace(badBid, from, to, 1)
		if body == badBid {
			t.Fatalf("%s does not occur in %s", from, badBid)
		}
		return body
	}
	for _, c := range []struct {
		name, key, messageType, body string
		counted                      string // under schema and keyword; empty: it is parked
		answered                     bool   // with task.bid_rejected
	}{
		{"a fitness of 2", own, "", badBid, `task.bid maximum`, true},
		{"no number", own, "", bad(`"fitness":2`, `"fitness":NaN`), `task.bid syntax`, true},
		{"fewer than no tasks", own, "", bad(`2,"active_tasks":2`, `1,"active_tasks":-1`), `task.bid minimum`, true},
		{"no fitness", own, "", bad(`"fitness":2,`, ``), `task.bid required`, true},
		{"no auction", own, "", bad(`"auction_id":"t-1.1",`, ``), `task.bid maximum`, false},
		{"no id of an auction", own, "", bad(`t-1.1`, `t 1`), `task.bid pattern`, false},
		{"an endless id of an auction", own, "", bad(`t-1.1`, strings.Repeat("x", 161)), `task.bid pattern`, false},
		{"an endless id of a task", own, "", bad(`"t-1"`, `"`+strings.Repeat("x", 129)+`"`), `task.bid maximum`, false},
		{"two auctions", own, "", bad(`"note"`, `"auction_id":"t-1.2","note"`), `task.bid duplicateKey`, false},
		{"cut off before the auction", own, "", badBid[:40], `task.bid syntax`, false},
		{"another agent's", "task.request.a2", "", badBid, `task.bid maximum`, false},
		{"whosever", bus.QueueRequest, "", badBid, `task.bid maximum`, false},
		{"a claim of nothing", own, "", badClaim, `task.claim minimum`, false},
		{"no JSON by an agent's key", own, "", "hunter2", `task.bid type`, false},
		{"no type by an agent's key", own, "", "{}", `task.bid required`, false},
		{"too large, by an agent's key", own, "", strings.Repeat(" ", 1<<20+1), `task.bid size`, false},
		{"something else by an agent's key", own, "", `{"message_type":"task.assign","task_id":"t-1"}`, `task.bid enum`,
			false},
		{"no JSON, by its property a bid", bus.QueueRequest, schemas.TaskBid, "hunter2", `task.bid type`, false},
		{"no JSON, by its property a claim", bus.QueueRequest, schemas.TaskClaim, "hunter2", `task.claim type`, false},
		{"no JSON", bus.QueueRequest, "", "hunter2", "", false},
		{"no JSON by a producer's key", "task.request.producer", "", "hunter2", "", false},
		{"a cancel of nothing", bus.QueueRequest, "", `{"message_type":"task.cancel"}`, "", false},
		{"a cancel by an agent's key", own, "", `{"message_type":"task.cancel","task_id":"t-1"}`, "", false},
		{"a cancel whose property says bid", bus.QueueRequest, schemas.TaskBid, `{"message_type":"task.cancel"}`, "", false},
		{"a task", bus.QueueRequest, "", `{"message_type":"task.assign","task_id":"t-1"}`, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			inRig(t, fleet, func(r *rig) {
				a1 := r.worker("a1", true)
				r.request(c.key, "", c.messageType, c.body)
				r.pass(outbox.RejectionDelay)
				r.empty(bus.QueueRequest)
				kept := 0
				if c.counted == "" {
					kept = 1
				}
				if n := len(r.in(bus.QueueDead)); n != kept {
					t.Errorf("%d messages parked, want %d", n, kept)
				}
				if n := len(r.in(bus.QueueFailed)); n != 0 {
					t.Errorf("%d tasks are told as failed", n)
				}
				got := scraped(t, r.service.options.Registry)
				schema, keyword, _ := strings.Cut(c.counted, " ")
				bids, claims := 0., 0.
				switch schema {
				case schemas.TaskBid:
					bids = 1
				case schemas.TaskClaim:
					claims = 1
				default:
					schema, keyword = schemas.TaskCancel, "" // whatever
				}
				if keyword != "" {
					if n := got[fmt.Sprintf(`taskbus_validation_failures_total{keyword=%q,schema=%q}`, keyword, schema)]; n != 1 {
						t.Errorf("%v counted as %s by %s, want 1", n, schema, keyword)
					}
				}
				if n := got[`taskbus_bids_refused_total{reason="invalid"}`]; n != bids {
					t.Errorf("%v invalid bids, want %v", n, bids)
				}
				if n := got[`taskbus_claims_total{limit="invalid"}`]; n != claims {
					t.Errorf("%v invalid claims, want %v", n, claims)
				}
				if told := a1.told(); !c.answered && len(told) != 0 {
					t.Errorf("a1 is told %s", told[0].Body)
				} else if c.answered {
					trace := `,"correlation_id":"trace-1"`
					if strings.Contains(c.body, "NaN") { // what follows the fault is not read
						trace = ""
					}
					want :=
						`{"message_type":"task.bid_rejected","task_id":"t-1","auction_id":"t-1.1","agent_id":"a1","reason":"invalid"` +
							trace + `}`
					if len(told) != 1 || string(told[0].Body) != want {
						t.Errorf("a1 is told %d messages, want %s", len(told), want)
					}
				}
				if log := r.log.String(); strings.Contains(log, "hunter2") {
					t.Errorf("what stands in the message is logged:\n%s", log)
				}
			})
		})
	}
}

// No agent can have the bids of another called invalid: only an agent whose key or user the broker has
// checked gets the answer. A user that is another's counts against the key.
func TestWhoIsToldOfAnInvalidBid(t *testing.T) {
	for _, c := range []struct {
		mode, key, user string
		told            bool
	}{
		{"off", "task.request.a1", "", true},
		{"off", "task.request.a1", "a1", true},
		{"off", "task.request.a1", "a2", false},
		{"off", "task.request.a2", "a1", false},
		{"off", "task.request", "a1", true},
		{"off", "task.request", "", false},
		{"warn", "task.request.a1", "", true},
		{"warn", "task.request", "", false},
		{"strict", "task.request.a1", "a1", true},
		{"strict", "task.request", "a1", true},
		{"strict", "task.request.a1", "", false},
		{"strict", "task.request.a1", "a2", false},
	} {
		synctesting(t, c.mode+" "+c.key+" "+c.user, func(t *testing.T) {
			b := newBooth(t, strings.Replace(fleet, "agents:\n", "agents:\n  auth: "+c.mode+"\n", 1))
			b.onRequest(bus.Delivery{
				Queue: bus.QueueRequest, Exchange: bus.ExchangeIn, RoutingKey: c.key, Offset: -1,
				Body: []byte(badBid), Properties: bus.Properties{UserID: c.user},
			})
			if told := b.outbox.Waiting() == 1; told != c.told {
				t.Errorf("told: %v, want %v", told, c.told)
			}
			if len(b.acked) != 1 {
				t.Errorf("%d acknowledgements, want 1 at once", len(b.acked))
			}
			if got := b.posted(); len(got) != 0 {
				t.Errorf("the engine hears %v", got)
			}
		})
	}
}

// lineOf is the only line of the log with this message.
func (r *rig) lineOf(message string) map[string]any {
	r.t.Helper()
	var found []map[string]any
	for line := range strings.Lines(r.log.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			r.t.Fatalf("a log line is not JSON: %s", line)
		}
		if fields["message"] == message {
			found = append(found, fields)
		}
	}
	if len(found) != 1 {
		r.t.Fatalf("%d lines %q, want 1; log:\n%s", len(found), message, r.log)
	}
	return found[0]
}

// The line about a message without an answer has all that identifies its sender.
func TestLinesAboutRefusedMessagesNameTheirSender(t *testing.T) {
	const parked = "message parked in task.dead; no assignment.failed tells of it (see `taskbus dead ls`)"
	endless := strings.Repeat("k", 200)
	for _, c := range []struct {
		name, line string
		send       func(r *rig)
		want       string
	}{
		{"a cancel by an agent's key", parked, func(r *rig) {
			r.request("task.request.a1", "a1", schemas.TaskCancel,
				`{"message_type":"task.cancel","task_id":"t-1","correlation_id":"trace-1","reason":"hunter2"}`)
		},
			`map[message_id:m-1 message_type:task.cancel queue:task.request routing_key:task.request.a1 task_id:t-1 ` +
				`trace_id:trace-1 user_id:a1]`},
		{"no JSON", parked, func(r *rig) {
			r.publish(bus.QueueAssign, "hunter2", func(p *bus.Properties) {
				p.AppID, p.MessageID, p.Type = "shop", "m 2", "task\n"
			})
		}, `map[app_id:shop message_id:m 2 message_type:task  queue:task.assign routing_key:task.assign]`},
		{"a heartbeat astray", parked, func(r *rig) {
			r.publish(bus.QueueRequest, `{"message_type":"agent.status","agent_id":"a1"}`,
				func(p *bus.Properties) { p.MessageID = endless })
		}, `map[agent_id:a1 message_id:` + endless[:125] +
			`… message_type:agent.status queue:task.request routing_key:task.request]`},
		{"a dispatch that came back", parked, func(r *rig) {
			r.publish(bus.QueueReassign, "hunter2",
				func(p *bus.Properties) { p.Headers = map[string]any{"x-first-death-queue": "agent.a1"} })
		}, `map[came_back_from:agent.a1 queue:task.reassign routing_key:task.reassign]`},
		{"a bid", "invalid bid or claim ignored", func(r *rig) { r.request("task.request.a2", "a2", "", badBid) },
			`map[agent_id:a1 message_id:m-1 message_type:task.bid path:/fitness routing_key:task.request.a2 task_id:t-1 ` +
				`trace_id:trace-1 user_id:a2]`},
		{"a claim of no agent", "invalid bid or claim ignored; its agent_id cannot be read", func(r *rig) {
			r.publish(bus.QueueRequest, `{"message_type":"task.claim"}`)
		}, `map[message_type:task.claim path: routing_key:task.request]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			inRig(t, fleet, func(r *rig) {
				c.send(r)
				r.settle()
				line := r.lineOf(c.line)
				if line["level"] != "warn" || line["reason"] == "" {
					t.Errorf("level %v, reason %v", line["level"], line["reason"])
				}
				for _, name := range []string{"level", "message", "reason", "time"} {
					delete(line, name)
				}
				if got := fmt.Sprint(line); got != c.want {
					t.Errorf("the line has\n%s\nwant\n%s", got, c.want)
				}
				if strings.Contains(r.log.String(), "hunter2") {
					t.Errorf("what stands in the message is logged:\n%s", r.log)
				}
			})
		})
	}
}

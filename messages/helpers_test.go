package messages

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"taskbus/schemas"
	"taskbus/tests/support/jsonkeys"
)

func compiled(tb testing.TB) *schemas.Set {
	tb.Helper()
	set, err := schemas.Compile()
	if err != nil {
		tb.Fatalf("compiling the schemas: %v", err)
	}
	return set
}

func newDecoder(tb testing.TB) *Decoder {
	tb.Helper()
	return NewDecoder(compiled(tb), Limits{})
}

// requireFits holds a message that Taskbus sends against its schema.
func requireFits(tb testing.TB, set *schemas.Set, name string, body []byte) {
	tb.Helper()
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		tb.Fatalf("%s is not JSON: %v\n%s", name, err, body)
	}
	if err := set.Validate(name, value); err != nil {
		tb.Fatalf("%s does not fit its schema: %v\n%s", name, err, body)
	}
	if twice := jsonkeys.Twice(body); twice {
		tb.Fatalf("%s has a duplicate key\n%s", name, body)
	}
}

// tester is what testing and rapid have in common.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// requireAgreement: what the fast path accepts (ok) the slow path accepts, with an equal
// value. A refusal must be sound.
func requireAgreement(tb tester, body []byte, fast any, ok bool, slow any, refusal *Refusal) {
	tb.Helper()
	if ok && refusal != nil {
		tb.Fatalf("the fast path accepts what the slow path refuses: %s\n%s", refusal.Text, body)
	}
	if ok && !reflect.DeepEqual(fast, slow) {
		tb.Fatalf("the paths differ:\nfast %+v\nslow %+v\n%s", fast, slow, body)
	}
	if refusal != nil {
		requireSound(tb, refusal)
	}
}

// requireSound checks what holds for every refusal.
func requireSound(tb tester, r *Refusal) {
	tb.Helper()
	switch {
	case r.Keyword == "" || r.Text == "":
		tb.Fatalf("refusal without a reason: %+v", r)
	case len(r.Text) > MaxText || len(r.Path) > maxPath:
		tb.Fatalf("refusal too long: text %d bytes, path %d bytes", len(r.Text), len(r.Path))
	case !utf8.ValidString(r.Text) || strings.ContainsFunc(r.Text+r.Path, unicode.IsControl):
		tb.Fatalf("refusal not clean: %q %q", r.Path, r.Text)
	case r.TaskID != "" && !ValidID(string(r.TaskID)):
		tb.Fatalf("refusal with an invalid task id %q", r.TaskID)
	case r.AuctionID != "" && !validID(r.AuctionID, maxDispatchID):
		tb.Fatalf("refusal with an invalid auction id %q", r.AuctionID)
	case r.CorrelationID != "" && !ValidTraceID(r.CorrelationID):
		tb.Fatalf("refusal with an invalid correlation id %q", r.CorrelationID)
	case len(r.AgentID) > maxID || !utf8.ValidString(r.AgentID) || strings.ContainsFunc(r.AgentID, unicode.IsControl):
		tb.Fatalf("refusal with an agent id that is not clean: %q", r.AgentID)
	case len(r.ReplyTo) > maxReplyTo || !plain(r.ReplyTo):
		tb.Fatalf("refusal with an invalid queue to reply to %q", r.ReplyTo)
	}
}

// assign builds a task.assign around further members, such as `"priority":3`.
func assign(members ...string) string {
	all := append([]string{`"message_type":"task.assign","task_id":"t-1","task_type":"optimize_memory","payload":{}`},
		members...)
	return "{" + strings.Join(all, ",") + "}"
}

// status builds an agent.status around further members.
func status(members ...string) string {
	all := append([]string{`"message_type":"agent.status","agent_id":"a-1","status":"ready","current_load":0.25,` +
		`"active_tasks":1,"available_capacity":3,"timestamp":"2026-01-31T23:59:59Z"`}, members...)
	return "{" + strings.Join(all, ",") + "}"
}

// result builds a task.result around further members.
func result(members ...string) string {
	all := append([]string{`"message_type":"task.result","task_id":"t-1","agent_id":"a-1","outcome":"succeeded",` +
		`"correlation_id":"trace_1","timestamp":"2026-01-31T23:59:59Z"`}, members...)
	return "{" + strings.Join(all, ",") + "}"
}

// bid builds a task.bid around further members.
func bid(members ...string) string {
	all :=
		append([]string{`"message_type":"task.bid","task_id":"t-1","auction_id":"t-1.1","agent_id":"a-1","fitness":0.75,` +
			`"active_tasks":1,"estimated_duration_seconds":42.5`}, members...)
	return "{" + strings.Join(all, ",") + "}"
}

// dispatched is the task.dispatch of sampleDispatch.
func dispatched() string { return string(AppendDispatch(nil, sampleDispatch(), []byte("{}"))) }

// nested is n arrays, one inside the other.
func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

// quoted is a JSON array of n equal strings.
func quoted(n int, s string) string {
	if n == 0 {
		return "[]"
	}
	return "[" + strings.Repeat(`"`+s+`",`, n-1) + `"` + s + `"]`
}

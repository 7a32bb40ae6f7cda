package messages

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
)

// dispatches is the corpus of task.dispatch messages: an agent's queue may hold
// anything.
var dispatches = []struct {
	name, body    string
	path, keyword string
}{
	{"what Taskbus sends", dispatched(), "", ""},
	{"a deadline", withField(dispatched(), "deadline", `"2030-01-01T00:00:00Z"`), "", ""},
	{"a payload in several lines", strings.Replace(dispatched(), "{}", "{\n  \"a\": [1, 2]\n}", 1), "", ""},
	{"an escape in the type", withField(dispatched(), "task_type", `"a\"b"`), "", ""},
	{"integers written as floats", withField(dispatched(), "attempt", `1.0`), "", ""},
	{"a field of a later version", withField(dispatched(), "lane", `"x"`), "", ""},
	{"one of a batch", batched("t-1.1", "10"), "", ""},
	{"a timeout beyond any lifetime", withField(dispatched(), "timeout_seconds", `1e300`), "", ""},

	{"not JSON", "hello", "", "type"},
	{"cut off", strings.TrimSuffix(dispatched(), "}"), "", "syntax"},
	{"a task.assign", assign(), "", "required"},
	{"another message type", withField(dispatched(), "message_type", `"task.assign"`), "/message_type", "const"},
	{"no agent", strings.Replace(dispatched(), "assigned_agent", "agent", 1), "", "required"},
	{"a reserved agent", withField(dispatched(), "assigned_agent", `"a.control"`), "/assigned_agent", "not"},
	{"a payload that is none", strings.Replace(dispatched(), "{}", "[]", 1), "/payload", "type"},
	{"no payload", strings.Replace(dispatched(), "payload", "body", 1), "", "required"},
	{"a duplicate key in the payload", strings.Replace(dispatched(), "{}", `{"a":1,"a":2}`, 1), "/payload",
		"duplicateKey"},
	{"two agents", strings.Replace(dispatched(), "{}", `{},"assigned_agent":"other"`, 1), "/assigned_agent",
		"duplicateKey"},
	{"letter case", strings.Replace(dispatched(), "{}", `{},"Attempt":2`, 1), "/Attempt", "letterCase"},
	{"attempt 0", withField(dispatched(), "attempt", `0`), "/attempt", "minimum"},
	{"priority 4", withField(dispatched(), "priority", `4`), "/priority", "maximum"},
	{"no time to work", withField(dispatched(), "timeout_seconds", `0`), "/timeout_seconds", "exclusiveMinimum"},
	{"a negative timeout", withField(dispatched(), "timeout_seconds", `-1`), "/timeout_seconds", "exclusiveMinimum"},
	{"a timeout beyond float64", withField(dispatched(), "timeout_seconds", `9e308`), "", "number"},
	{"30th of February", withField(dispatched(), "assignment_time", `"2026-02-30T00:00:00Z"`), "/assignment_time",
		"calendar"},
	{"dispatch id of 161", withField(dispatched(), "dispatch_id", `"`+strings.Repeat("x", 161)+`"`), "/dispatch_id",
		"pattern"},
	{"a batch of one", batched("t-1.1", "1"), "/batch_size", "minimum"},
	{"a batch of a half", batched("t-1.1", "2.5"), "/batch_size", "type"},
	{"a batch of more than a million", batched("t-1.1", "1000001"), "/batch_size", "maximum"},
	{"a batch without a name", batched("", "2"), "/batch_id", "pattern"},
	{"an empty queue", withField(dispatched(), "queue", `""`), "/queue", "pattern"},
}

// batched is a dispatch of a batch.
func batched(id, size string) string {
	return withField(dispatched(), "batch_id", strconv.Quote(id)+`,"batch_size":`+size)
}

func TestTaskDispatchCorpus(t *testing.T) {
	d := newDecoder(t)
	for _, c := range dispatches {
		t.Run(c.name, func(t *testing.T) {
			m, refusal := d.DecodeTaskDispatch([]byte(c.body))
			checkVerdict(t, refusal, c.path, c.keyword)
			if (m == nil) == (refusal == nil) {
				t.Fatalf("exactly one of message and refusal is expected, got %v and %v", m, refusal)
			}
			checkTaskDispatch(t, d, []byte(c.body))
		})
	}
}

func FuzzTaskDispatch(f *testing.F) {
	d := newDecoder(f)
	for _, c := range dispatches {
		f.Add([]byte(c.body))
	}
	f.Fuzz(func(t *testing.T, body []byte) { checkTaskDispatch(t, d, body) })
}

// checkTaskDispatch: what the fast path accepts the slow path accepts with an
// equal value.
func checkTaskDispatch(t tester, d *Decoder, body []byte) {
	t.Helper()
	original := bytes.Clone(body)
	fast, ok := d.fastTaskDispatch(body)
	slow, refusal := d.slowTaskDispatch(body)
	if !bytes.Equal(original, body) {
		t.Fatal("decoding has changed the body")
	}
	requireAgreement(t, body, fast, ok, slow, refusal)
}

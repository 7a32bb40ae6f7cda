package messages

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// sent is a dispatch as the broker has it.
type sent struct {
	body        []byte
	task, tried string
}

func send(d *coordinator.Dispatch, payload string) sent {
	return sent{AppendDispatch(nil, d, []byte(payload)), EncodeTaskHeader(d.Task), EncodeTriedHeader(d)}
}

func (s sent) decode(d *Decoder) (*Returned, *Refusal) {
	return d.DecodeReturned(s.body, s.task, s.tried)
}

// The broker pays for every byte of every dispatch: these are all there are.
func TestHeadersSayOnlyWhatTheBodyDoesNot(t *testing.T) {
	own := sampleTask() // with a timeout of its own
	plain := sampleTask()
	plain.Timeout, plain.Deadline = 0, at
	rich := sampleTask()
	rich.Required, rich.Preferred, rich.Excluded = []string{"go"}, []coordinator.AgentID{"b", "a"},
		[]coordinator.AgentID{"c"}
	rich.WidenAfter = 2500 * time.Millisecond
	rich.Group, rich.Strategy, rich.ReplyTo, rich.Labels = "g", "least_loaded", "replies",
		map[string]string{"b": "2", "a": "1"}
	rich.EstimatedUsage = &coordinator.Usage{Requests: 2, CostUSD: 1e-301} // next to nothing
	rich.NoBorrowing = true
	// 2026-01-31T23:59:59.123456789Z is 1,769,903,999 s and 123,456 µs.
	const always = `{"accepted_at":1769903999123456,"content_hash":"00000000000000ab"`
	for _, c := range []struct {
		name, want string
		task       *coordinator.Task
	}{
		{"plain, with a deadline", always + `}`, plain},
		{"a timeout of its own", always + `,"timeout_seconds":300}`, own},
		{"everything",
			always +
				`,"timeout_seconds":300,"required_capabilities":["go"],"preferred_agents":["b","a"],"widen_after_seconds":2.5,` +
				`"excluded_agents":["c"],` +
				`"group":"g","strategy":"least_loaded","estimated_usage":{"requests":2},"allow_borrowing":false,` +
				`"labels":{"a":"1","b":"2"},"reply_to":"replies"}`, rich},
	} {
		if got := EncodeTaskHeader(c.task); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, c.want)
		}
	}
	if n := len(EncodeTaskHeader(plain)); n > 70 {
		t.Errorf("%d bytes for a plain task, want 70 at most", n)
	}

	d := sampleDispatch()
	if got := EncodeTriedHeader(d); got != "" {
		t.Errorf("nobody had the task before, but there is a header %s", got)
	}
	d.Attempt, d.Tried = 2, []coordinator.AgentID{"a1"}
	for _, c := range []struct {
		name, want               string
		tried, failed, suspected []coordinator.AgentID
	}{
		{"one before", `{"agent":"agent_789","attempt":2,"tried":["a1","agent_789"]}`, []coordinator.AgentID{"a1"}, nil, nil},
		{"one before, who failed", `{"agent":"agent_789","attempt":2,"tried":["a1","a2","agent_789"],"failed":["a2"]}`,
			[]coordinator.AgentID{"a1", "a2"}, []coordinator.AgentID{"a2"}, nil},
		{"the same agent once more", "", []coordinator.AgentID{"agent_789"}, nil, nil},
		{"the same agent once more, another before", `{"agent":"agent_789","attempt":2,"tried":["a1","agent_789"]}`,
			[]coordinator.AgentID{"a1", "agent_789"}, nil, nil},
		{"the same agent once more, although it failed",
			`{"agent":"agent_789","attempt":2,"tried":["agent_789"],"failed":["agent_789"]}`,
			[]coordinator.AgentID{"agent_789"}, []coordinator.AgentID{"agent_789"}, nil},
		{"the same agent once more, lost twice with others",
			`{"agent":"agent_789","attempt":2,"tried":["agent_789"],"suspected":["agent_789","agent_789"]}`,
			nil, nil, []coordinator.AgentID{"agent_789", "agent_789"}},
	} {
		d.Tried, d.Failed, d.Suspected = c.tried, c.failed, c.suspected
		if got := EncodeTriedHeader(d); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

// A dispatch that comes back is the task it was, whichever agents have had it.
func TestReturnedRoundTrip(t *testing.T) {
	d := newDecoder(t)
	rapid.Check(t, func(t *rapid.T) {
		task := genTask(t)
		payload, err := json.Marshal(rapid.MapOfN(rapid.String(), rapid.String(), 0, 4).Draw(t, "payload"))
		if err != nil {
			t.Fatal(err)
		}
		dispatch := &coordinator.Dispatch{
			Task: task, Agent: genAgentID(t), Queue: "agent.x", Attempt: rapid.IntRange(1, 1000).Draw(t, "attempt"),
			Timeout: task.Timeout, At: at,
		}
		if dispatch.Timeout == 0 {
			dispatch.Timeout = 300 * time.Second // the agent's
		}
		dispatch.DispatchID = coordinator.DispatchID(task, dispatch.Attempt)
		for range rapid.IntRange(0, 5).Draw(t, "before") {
			agent := genAgentID(t)
			dispatch.Tried = append(dispatch.Tried, agent)
			if rapid.Bool().Draw(t, "failed") {
				dispatch.Failed = append(dispatch.Failed, agent)
			}
			if rapid.Bool().Draw(t, "suspected") {
				dispatch.Suspected = append(dispatch.Suspected, agent)
			}
		}
		got, refusal := send(dispatch, string(payload)).decode(d)
		if refusal != nil {
			t.Fatalf("%s\n%s", refusal.Text, EncodeTaskHeader(task))
		}
		task.AcceptedAt, task.Deadline = task.AcceptedAt.Truncate(time.Microsecond), task.Deadline.Truncate(time.Microsecond)
		if u := task.EstimatedUsage; u != nil && u.CostUSD < leastAmount {
			u.CostUSD = 0
		}
		want := &Returned{
			Task: task, Payload: payload, Agent: dispatch.Agent, Attempt: dispatch.Attempt,
			Tried:  coordinator.SortedUnique(append(slices.Clone(dispatch.Tried), dispatch.Agent)),
			Failed: coordinator.SortedUnique(slices.Clone(dispatch.Failed)), Suspected: dispatch.Suspected,
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got  %+v, task %+v\nwant %+v, task %+v", got, got.Task, want, want.Task)
		}
	})
}

// The header may hold anything: an agent that never had the task cannot have failed it.
func TestFailedAreAmongTried(t *testing.T) {
	dispatch := sampleDispatch()
	dispatch.Attempt, dispatch.Tried = 3, []coordinator.AgentID{"a1", "a2"}
	for _, c := range []struct {
		name, failed string
		want         []coordinator.AgentID
	}{
		{"none", `[]`, nil},
		{"sorted, once each", `["a2","a1","a2"]`, []coordinator.AgentID{"a1", "a2"}},
		{"the agent of this dispatch", `["agent_789"]`, []coordinator.AgentID{"agent_789"}},
		{"a stranger", `["a1","stranger"]`, []coordinator.AgentID{"a1"}},
		{"strangers only", `["stranger"]`, nil},
	} {
		s := send(dispatch, "{}")
		s.tried = strings.TrimSuffix(s.tried, "}") + `,"failed":` + c.failed + "}"
		got, refusal := s.decode(newDecoder(t))
		if refusal != nil {
			t.Fatalf("%s: %s", c.name, refusal.Text)
		}
		if want := []coordinator.AgentID{"a1", "a2", "agent_789"}; !slices.Equal(got.Tried, want) ||
			!reflect.DeepEqual(got.Failed, c.want) {
			t.Errorf("%s: tried %v, failed %#v; want %v, %#v", c.name, got.Tried, got.Failed, want, c.want)
		}
	}
}

// What is accepted can be sent, read by its agent and come back: a dispatch has
// more bytes and more tokens than the task.assign it was made of.
func TestLargestTasksComeBack(t *testing.T) {
	limits := DefaultLimits()
	const around = `"a":""`
	empty := len(assign())
	for _, c := range []struct{ name, payload string }{
		{"a byte less than the size", `{` + around[:5] + strings.Repeat("x", limits.MaxBytes-1-empty-len(around)) + `"}`},
		{"just the size", `{` + around[:5] + strings.Repeat("x", limits.MaxBytes-empty-len(around)) + `"}`},
		// 100,000 less the object, 4 keys and 3 values of the envelope, the payload
		// itself and the key and array in it leave 99,989.
		{"just the tokens", `{"a":[` + strings.TrimSuffix(strings.Repeat("1,", 99_989), ",") + `]}`},
		{"just the depth", `{"a":` + nested(62) + `}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDecoder(t)
			m, refusal := d.DecodeTaskAssign([]byte(strings.Replace(assign(), "{}", c.payload, 1)))
			if refusal != nil {
				t.Fatalf("the task: %s", refusal.Text)
			}
			task := m.Task(Arrival{Now: at})
			// All that Taskbus adds, as long as it can be.
			task.ID, task.CorrelationID = coordinator.TaskID(strings.Repeat("x", maxID)), strings.Repeat(`"`, maxTraceID)
			task.Type, task.Deadline = strings.Repeat("\U0001F600", maxName), at
			task.Description = strings.Repeat("\t", maxDescription) // 2 bytes in the task.assign, 6 as it is sent
			dispatch := &coordinator.Dispatch{
				Task: task, Agent: coordinator.AgentID(strings.Repeat("x", maxID)), Queue: strings.Repeat(`"`, 255),
				Attempt: 1_000_000, Timeout: time.Second / 3, At: at,
			}
			dispatch.DispatchID = coordinator.DispatchID(task, dispatch.Attempt)
			s := send(dispatch, string(m.Payload))
			if _, refusal := d.DecodeTaskDispatch(s.body); refusal != nil {
				t.Errorf("the agent cannot read its dispatch of %d bytes: %s", len(s.body), refusal.Text)
			}
			got, refusal := s.decode(d)
			if refusal != nil {
				t.Fatalf("the dispatch of %d bytes is refused when it comes back: %s", len(s.body), refusal.Text)
			}
			if string(got.Payload) != c.payload {
				t.Error("the payload has changed")
			}
		})
	}
	// One more is too many already for the task.
	d := newDecoder(t)
	for keyword, payload := range map[string]string{
		"size":   `{` + around[:5] + strings.Repeat("x", limits.MaxBytes+1-empty-len(around)) + `"}`,
		"tokens": `{"a":[` + strings.Repeat("1,", 99_989) + `1]}`,
	} {
		if _, refusal := d.DecodeTaskAssign([]byte(strings.Replace(assign(), "{}", payload, 1))); keywordOf(
			refusal) != keyword {
			t.Errorf("a task beyond the limit is refused by %q, want %q", keywordOf(refusal), keyword)
		}
	}
}

// Whatever is wrong with what comes back, its producer can be told if body or
// header says so much.
func TestRefusedReturns(t *testing.T) {
	d := newDecoder(t)
	dispatch := sampleDispatch()
	dispatch.Task.ReplyTo = "replies"
	valid := send(dispatch, `{"a":1}`)
	dispatch.Attempt, dispatch.Tried = 2, []coordinator.AgentID{"a1"}
	second := send(dispatch, `{"a":1}`)
	in := func(s, from, to string) string {
		if !strings.Contains(s, from) {
			t.Fatalf("%s is not in %s", from, s)
		}
		return strings.Replace(s, from, to, 1)
	}
	body := func(from, to string) sent { return sent{[]byte(in(string(valid.body), from, to)), valid.task, ""} }
	header := func(from, to string) sent { return sent{valid.body, in(valid.task, from, to), ""} }
	tried := func(text string) sent { return sent{second.body, second.task, text} }
	const id, trace, queue = "task_456", "trace_123", "replies"
	for _, c := range []struct {
		name                   string
		sent                   sent
		keyword                string
		taskID, traceID, reply string
	}{
		{"valid", valid, "", "", "", ""},
		{"valid, second attempt", second, "", "", "", ""},
		{"valid, second attempt of which nothing is known", tried(""), "", "", "", ""},

		{"body: not JSON", sent{[]byte("hello"), valid.task, ""}, "type", "", "", queue},
		{"body: cut off", sent{valid.body[:len(valid.body)-1], valid.task, ""}, "syntax", id, trace, queue},
		{"body: schema", body(`"priority":2`, `"priority":9`), "maximum", id, trace, queue},
		{"body: calendar", body("2026-01-31", "2026-02-31"), "calendar", id, trace, queue},
		{"body: no task id", body("task_id", "id"), "required", "", trace, queue},
		{"body: another message", body("task.dispatch", "task.assign"), "const", id, trace, queue},
		{"body: no attempt", body(`"attempt":1`, `"attempt":0`), "minimum", id, trace, queue},

		{"no header", sent{valid.body, "", ""}, "header", id, trace, ""},
		{"header: no object", sent{valid.body, "[]", ""}, "type", id, trace, ""},
		{"header: no time of acceptance", header("accepted_at", "accepted"), "required", id, trace, queue},
		{"header: hash without digits", header("00000000000000ab", "000000000000000g"), "pattern", id, trace, queue},
		{"header: acceptance before 1970", header("1769903999123456", "-1"), "minimum", id, trace, queue},
		{"header: acceptance beyond what a float can count", header("1769903999123456", "9007199254740992"), "maximum", id,
			trace, queue},
		{"header: duplicate key", header("{", `{"accepted_at":1,`), "duplicateKey", id, trace, ""},
		{"header: letter case", header("{", `{"Reply_To":"x",`), "letterCase", id, trace, ""},
		{"header: two queues to reply to", header(`"replies"}`, `"replies","reply_to":"x"}`), "duplicateKey", id, trace, ""},
		{"header: a queue that is none", header("replies", `a\nb`), "pattern", id, trace, ""},
		{"header: another timeout than the body", header(":300", ":301"), "header", id, trace, queue},
		{"body and header", sent{[]byte("{"), in(valid.task, "accepted_at", "accepted"), ""}, "syntax", "", "", queue},

		{"tried: no JSON", tried("x"), "type", id, trace, queue},
		{"tried: nothing in it", tried("{}"), "required", id, trace, queue},
		{"tried: no attempt", tried(in(second.tried, `"attempt":2`, `"attempt":0`)), "minimum", id, trace, queue},
		{"tried: a reserved id", tried(in(second.tried, `"a1"`, `"status"`)), "not", id, trace, queue},
		{"tried: too many", tried(`{"agent":"a","attempt":2,"tried":` + quoted(65, "a") + `}`), "maxItems", id, trace, queue},
		{"tried: too many failed", tried(in(second.tried, "}", `,"failed":`+quoted(65, "a")+`}`)), "maxItems", id, trace,
			queue},
		{"tried: a reserved id failed", tried(in(second.tried, "}", `,"failed":["status"]}`)), "not", id, trace, queue},
		{"tried: failed is no list", tried(in(second.tried, "}", `,"failed":"a1"}`)), "type", id, trace, queue},
		{"tried: another agent than the body", tried(in(second.tried, `"agent":"agent_789"`, `"agent":"a1"`)), "header", id,
			trace, queue},
		{"tried: another attempt than the body", tried(in(second.tried, `"attempt":2`, `"attempt":3`)), "header", id, trace,
			queue},
	} {
		got, refusal := c.sent.decode(d)
		if keywordOf(refusal) != c.keyword {
			t.Errorf("%s: refused by %+v, want %q", c.name, refusal, c.keyword)
		}
		if (got == nil) == (refusal == nil) {
			t.Errorf("%s: exactly one of value and refusal is expected, got %v and %v", c.name, got, refusal)
		}
		if refusal == nil {
			continue
		}
		requireSound(t, refusal)
		if string(refusal.TaskID) != c.taskID || refusal.CorrelationID != c.traceID || refusal.ReplyTo != c.reply {
			t.Errorf("%s: task %q, trace %q, reply to %q; want %q, %q, %q", c.name,
				refusal.TaskID, refusal.CorrelationID, refusal.ReplyTo, c.taskID, c.traceID, c.reply)
		}
		if f := refusal.Fail("generated", at); f.Task.ReplyTo != c.reply {
			t.Errorf("%s: the failure replies to %q, want %q", c.name, f.Task.ReplyTo, c.reply)
		}
	}
}

// A dispatch that was sent before the limit was lowered is too large now, but
// its producer can be told.
func TestReturnAfterTheLimitWasLowered(t *testing.T) {
	dispatch := sampleDispatch()
	dispatch.Task.ReplyTo = "replies"
	s := send(dispatch, `{"a":"`+strings.Repeat("x", 1024+envelopeBytes)+`"}`)
	_, refusal := s.decode(NewDecoder(compiled(t), Limits{MaxBytes: 1024}))
	if keywordOf(refusal) != "size" || refusal.TaskID != "task_456" || refusal.CorrelationID != "trace_123" ||
		refusal.ReplyTo != "replies" {
		t.Errorf("refused by %+v, want size, with task, trace and queue", refusal)
	}
}

// A reply_to in the body of any other message is not Taskbus's to follow.
func TestReplyToIsReadFromTheHeaderOnly(t *testing.T) {
	_, refusal := newDecoder(t).DecodeTaskAssign([]byte(assign(`"reply_to":"x"`, `"priority":9`)))
	if keywordOf(refusal) != "maximum" || refusal.ReplyTo != "" {
		t.Errorf("refused by %+v, want maximum and nobody to reply to", refusal)
	}
}

// All headers of a message travel in one frame. Of its 131,072 bytes 4,096 are
// left for the properties and the trace context.
func TestLargestHeadersFitOneFrame(t *testing.T) {
	wide := func(n int) string { return strings.Repeat("\U0001F600", n) } // 4 bytes each
	ids := func(n int) []coordinator.AgentID {
		list := make([]coordinator.AgentID, n)
		for i := range list {
			list[i] = coordinator.AgentID(strings.Repeat("x", maxID))
		}
		return list
	}
	task := sampleTask()
	task.Group, task.Strategy = wide(maxName), strings.Repeat("x", maxStrategy)
	task.ReplyTo = strings.Repeat(`"`, maxReplyTo)
	task.Timeout = time.Second / 3
	for range maxRequired {
		task.Required = append(task.Required, wide(maxName))
	}
	task.Preferred, task.Excluded = ids(maxAgentIDs), ids(maxAgentIDs)
	task.Labels = map[string]string{}
	for i := range maxLabels {
		task.Labels[string(rune('A'+i))+wide(maxLabelKey-1)] = wide(maxLabelValue)
	}
	task.EstimatedUsage = &coordinator.Usage{Requests: 0.1234567890123456, InputTokens: 1e14 / 3, OutputTokens: 1e14 / 3,
		CostUSD: 1e14 / 3}
	for range coordinator.MaxAlternatives { // instead of one provider and model, which are shorter
		task.Alternatives = append(task.Alternatives, coordinator.Service{Provider: strings.Repeat("p", maxName),
			Model: strings.Repeat("m", maxName)})
	}
	dispatch := &coordinator.Dispatch{Task: task, Agent: ids(1)[0], Queue: "q", DispatchID: "d", Attempt: 200,
		Tried: ids(200), Failed: ids(200), Suspected: ids(200), Timeout: task.Timeout, At: at}
	s := send(dispatch, "{}")
	// A limit that was lowered since does not concern them.
	for _, limits := range []Limits{{}, {MaxBytes: 1024}} {
		if _, refusal := s.decode(NewDecoder(compiled(t), limits)); refusal != nil {
			t.Errorf("the largest headers, limits %+v: %s", limits, refusal.Text)
		}
	}
	if total := len(s.task) + len(s.tried); total > maxHeaders-4_096 {
		t.Errorf("task header %d bytes and tried header %d bytes do not fit one frame", len(s.task), len(s.tried))
	}
}

func FuzzReturned(f *testing.F) {
	d := newDecoder(f)
	dispatch := sampleDispatch()
	first := send(dispatch, `{"a":[1,{"b":"\u00fc"}]}`)
	dispatch.Attempt, dispatch.Tried = 2, []coordinator.AgentID{"a1", "a2"}
	dispatch.Task.Deadline, dispatch.Task.ReplyTo, dispatch.Task.Labels = at, "replies", map[string]string{"a": "b"}
	dispatch.Task.EstimatedUsage = &coordinator.Usage{CostUSD: 1e-300}
	dispatch.Failed = []coordinator.AgentID{"a1"}
	second := send(dispatch, "")
	for _, s := range []sent{first, second, {first.body, second.task, second.tried}, {nil, "", ""},
		{[]byte("{}"), "{}", "{}"}} {
		f.Add(s.body, s.task, s.tried)
	}
	f.Fuzz(func(t *testing.T, body []byte, task, tried string) {
		checkReturned(t, d, sent{bytes.Clone(body), task, tried})
	})
}

// checkReturned: what is accepted can be sent again, and comes back as it was.
func checkReturned(t tester, d *Decoder, s sent) {
	t.Helper()
	again := func(r *Returned) *Returned {
		dispatch := &coordinator.Dispatch{
			Task: r.Task, Agent: r.Agent, Queue: "q", DispatchID: "d", Attempt: r.Attempt, Tried: r.Tried, Failed: r.Failed,
			Suspected: r.Suspected, Timeout: max(r.Task.Timeout, time.Millisecond), At: at,
		}
		got, refusal := send(dispatch, string(r.Payload)).decode(d)
		if refusal != nil {
			t.Fatalf("sent again it is refused: %s\n%s\n%s", refusal.Text, s.body, s.task)
		}
		return got
	}
	r, refusal := s.decode(d)
	if refusal != nil {
		requireSound(t, refusal)
		return
	}
	if r.Attempt < 1 || !slices.IsSorted(r.Tried) || !slices.Contains(r.Tried, r.Agent) || !slices.IsSorted(r.Failed) ||
		!json.Valid(r.Payload) {
		t.Fatalf("returned %+v", r)
	}
	for _, agent := range r.Failed {
		if !slices.Contains(r.Tried, agent) {
			t.Fatalf("%s failed, but is not among those who had it: %v", agent, r.Tried)
		}
	}
	// Times lose their nanoseconds once, and only once.
	second := again(r)
	if third := again(second); !reflect.DeepEqual(second, third) || second.Task.ContentHash != r.Task.ContentHash {
		t.Fatalf("sent again it is another task:\n%+v\n%+v", second.Task, third.Task)
	}
}

package journal

import (
	"encoding/binary"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"hash/crc32"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// inputDraws draws events with arbitrary values, and in an order in which things
// come again.
type inputDraws struct{ *rapid.T }

func (d inputDraws) yes(name string) bool { return rapid.Bool().Draw(d.T, name) }
func (d inputDraws) text(name string) string {
	return rapid.OneOf(rapid.Just(""), rapid.SampledFrom([]string{"a", "b", "c"}), rapid.String()).Draw(d.T, name)
}
func (d inputDraws) agent() coordinator.AgentID { return coordinator.AgentID(d.text("agent")) }
func (d inputDraws) task() coordinator.TaskID   { return coordinator.TaskID(d.text("task id")) }
func (d inputDraws) number(name string) int     { return int(rapid.Int32().Draw(d.T, name)) }
func (d inputDraws) handle() coordinator.Handle {
	return coordinator.Handle(rapid.Uint64().Draw(d.T, "handle"))
}

// moment is any time, and often none.
func (d inputDraws) moment(name string) time.Time {
	switch rapid.IntRange(0, 3).Draw(d.T, name+" is none at 0") {
	case 0:
		return time.Time{}
	case 1:
		return time.Unix(rapid.Int64Range(-1<<40, 1<<40).Draw(d.T, name+" far away"), 0).UTC()
	default:
		return someTime.Add(time.Duration(rapid.Int64Range(-1e12, 1e12).Draw(d.T, name)))
	}
}

func (d inputDraws) agents(name string) []coordinator.AgentID {
	return rapid.SliceOfN(rapid.Map(rapid.StringN(1, 8, 20), func(s string) coordinator.AgentID { return coordinator.AgentID(s) }), 0, 3).Draw(d.T, name)
}

func (d inputDraws) usage() *coordinator.Usage {
	if !d.yes("usage") {
		return nil
	}
	f := rapid.Float64()
	return &coordinator.Usage{Requests: f.Draw(d.T, "requests"), InputTokens: f.Draw(d.T, "tokens"), CostUSD: f.Draw(d.T, "cost"), Model: d.text("model")}
}

func (d inputDraws) work() *coordinator.Task {
	return &coordinator.Task{
		ID: d.task(), Type: d.text("type"), Priority: coordinator.Priority(rapid.IntRange(0, 3).Draw(d.T, "priority")),
		TraceID: d.text("trace"), Timeout: time.Duration(d.number("timeout")), Deadline: d.moment("deadline"),
		Required: rapid.SliceOfN(rapid.String(), 0, 3).Draw(d.T, "required"), Preferred: d.agents("preferred"), Excluded: d.agents("excluded"),
		Strategy: d.text("strategy"), Group: d.text("group"), ReplyTo: d.text("reply to"), TraceParent: d.text("parent"), TraceState: d.text("state"),
		Labels:         rapid.MapOfN(rapid.String(), rapid.String(), 0, 3).Draw(d.T, "labels"),
		EstimatedUsage: d.usage(), AcceptedAt: d.moment("accepted"), ContentHash: rapid.Uint64().Draw(d.T, "content"),
	}
}

// events has a drawing function for each kind of event.
var events = []func(d inputDraws) coordinator.Event{
	func(d inputDraws) coordinator.Event {
		return coordinator.PolicyChanged{Policy: &coordinator.Policy{Version: d.text("version"), Source: d.text("source")}}
	},
	func(inputDraws) coordinator.Event { return coordinator.SessionOpened{} },
	func(inputDraws) coordinator.Event { return coordinator.SessionLost{} },
	func(inputDraws) coordinator.Event { return coordinator.DrainBegan{} },
	func(d inputDraws) coordinator.Event {
		return coordinator.TaskReceived{Handle: d.handle(), Task: d.work(), Redelivered: d.yes("redelivered")}
	},
	func(d inputDraws) coordinator.Event {
		return coordinator.TaskReturned{
			Handle: d.handle(), Task: d.work(), Agent: d.agent(), Attempt: d.number("attempt"), Tried: d.agents("tried"), Failed: d.agents("failed"),
			Cause:       coordinator.ReturnCause(rapid.IntRange(0, coordinator.NumReturnCauses-1).Draw(d.T, "cause")),
			Redelivered: d.yes("redelivered"),
		}
	},
	func(d inputDraws) coordinator.Event {
		r := coordinator.AgentReport{
			Agent: d.agent(), Status: coordinator.AgentStatus(rapid.IntRange(0, 3).Draw(d.T, "status")),
			Load: rapid.Float64().Draw(d.T, "load"), Active: d.number("active"), Available: d.number("available"),
			MaxConcurrent: d.number("most"), Capabilities: rapid.SliceOfN(rapid.String(), 0, 3).Draw(d.T, "capabilities"), Queue: d.text("queue"),
			HasCapacity: d.yes("has capacity"), HasPending: d.yes("has pending"), Relayed: d.yes("relayed"),
			Timestamp: d.moment("timestamp"), UserID: d.text("user"),
		}
		if r.HasCapacity {
			r.Capacity = rapid.Float64().Draw(d.T, "capacity")
		}
		if r.HasPending {
			r.Pending = d.number("pending")
		}
		if d.yes("lists") { // and if it is nothing
			r.ActiveTasks = make([]coordinator.TaskID, rapid.IntRange(0, 3).Draw(d.T, "running"))
			for i := range r.ActiveTasks {
				r.ActiveTasks[i] = d.task()
			}
		}
		return coordinator.AgentReported{Report: r, Live: d.yes("live")}
	},
	func(d inputDraws) coordinator.Event {
		return coordinator.DispatchSettled{Handle: d.handle(), Outcome: coordinator.PublishOutcome(rapid.IntRange(0, int(coordinator.PublishAbandoned)).Draw(d.T, "outcome"))}
	},
	func(d inputDraws) coordinator.Event {
		return coordinator.QueueChecked{Agent: d.agent(), Exists: d.yes("exists")}
	},
	func(d inputDraws) coordinator.Event {
		r := coordinator.Result{
			Task: d.task(), Agent: d.agent(), Outcome: coordinator.Outcome(rapid.IntRange(0, coordinator.NumOutcomes-1).Draw(d.T, "outcome")),
			Attempted: d.yes("attempted"), TraceID: d.text("trace"), Timestamp: d.moment("timestamp"),
			Duration: time.Duration(d.number("duration")), Usage: d.usage(),
		}
		r.DispatchID = rapid.OneOf(
			rapid.Just(""), rapid.String(), rapid.Just(string(r.Task)+".01"), rapid.Just(string(r.Task)+".+1"), rapid.Just(string(r.Task)+"."),
			rapid.Map(rapid.IntRange(-1, 1000), func(n int) string { return coordinator.DispatchID(r.Task, n) }),
		).Draw(d.T, "dispatch id")
		return coordinator.ResultReported{Result: r, Live: d.yes("live"), Untold: d.yes("untold")}
	},
	func(d inputDraws) coordinator.Event {
		return coordinator.CancelRequested{Task: d.task(), Reason: d.text("reason"), Token: rapid.Uint64().Draw(d.T, "token")}
	},
	func(d inputDraws) coordinator.Event {
		return coordinator.AgentOrdered{Agent: d.agent(), Order: coordinator.Order(rapid.IntRange(0, int(coordinator.OrderUncordon)).Draw(d.T, "order"))}
	},
	func(d inputDraws) coordinator.Event {
		return coordinator.QueueSeen{Agent: d.agent(), Ready: d.number("ready"), Consumers: d.number("consumers")}
	},
	func(d inputDraws) coordinator.Event { return coordinator.TakeBackEnded{Agent: d.agent()} },
	func(d inputDraws) coordinator.Event { return coordinator.FailureTold{Task: d.task()} },
	func(inputDraws) coordinator.Event { return coordinator.Tick{} },
}

// someTime is around when the drawn inputs come.
var someTime = time.Date(2030, 1, 1, 12, 0, 0, 123456789, time.UTC)

func drawInputs(t *rapid.T, most int) []Input {
	list := make([]Input, rapid.IntRange(0, most).Draw(t, "inputs"))
	at := someTime
	for i := range list {
		at = at.Add(time.Duration(rapid.Int64Range(0, 1e10).Draw(t, "after")))
		list[i] = Input{At: at, Event: rapid.SampledFrom(events).Draw(t, "kind")(inputDraws{t})}
	}
	return list
}

// sameInputs holds inputs that were read against those that were written; an empty
// list is like none, but for the tasks that an agent lists.
func sameInputs(t interface{ Fatalf(string, ...any) }, got, want []Input) {
	if len(got) != len(want) {
		t.Fatalf("%d inputs, want %d", len(got), len(want))
	}
	for i := range want {
		if g, w := normal(got[i]), normal(want[i]); !reflect.DeepEqual(g, w) {
			t.Fatalf("input %d:\ngot  %+v\nwant %+v", i, g, w)
		}
	}
}

// normal is an input without empty lists.
func normal(in Input) Input {
	switch ev := in.Event.(type) {
	case coordinator.TaskReceived:
		ev.Task = normalTask(ev.Task)
		in.Event = ev
	case coordinator.TaskReturned:
		ev.Task = normalTask(ev.Task)
		ev.Tried, ev.Failed = orNil(ev.Tried), orNil(ev.Failed)
		in.Event = ev
	case coordinator.AgentReported:
		ev.Report.Capabilities = orNil(ev.Report.Capabilities)
		in.Event = ev
	}
	return in
}

func normalTask(t *coordinator.Task) *coordinator.Task {
	c := *t
	c.Required, c.Preferred, c.Excluded = orNil(c.Required), orNil(c.Preferred), orNil(c.Excluded)
	if len(c.Labels) == 0 {
		c.Labels = nil
	}
	return &c
}

func orNil[E any](list []E) []E {
	if len(list) == 0 {
		return nil
	}
	return list
}

func TestInputsComeBackAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Recorded{Snapshot: rapid.String().Draw(t, "snapshot"), Ended: rapid.Bool().Draw(t, "ended"), Inputs: drawInputs(t, 12)}
		first := rapid.Uint64Range(1, 1<<60).Draw(t, "first")
		h, got, err := DecodeInputs(AppendInputs(nil, Header{Epoch: 7, First: first, ResultOffset: 5, SnapshotOffset: -1}, want))
		if err != nil {
			t.Fatal(err)
		}
		if h.Kind != KindInputs || h.First != first || h.Epoch != 7 || h.ResultOffset != 5 || h.SnapshotOffset != -1 || h.Count != len(want.Inputs) {
			t.Errorf("header %+v", h)
		}
		if got.Snapshot != want.Snapshot || got.Ended != want.Ended {
			t.Errorf("recorded %+v", got)
		}
		sameInputs(t, got.Inputs, want.Inputs)
	})
}

// The format has a place for every event that there is, and its number never changes.
func TestEveryEventHasAKind(t *testing.T) {
	tree, err := parser.ParseFile(token.NewFileSet(), "../event.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	declared, known := make(map[string]bool), make(map[string]bool)
	for _, d := range tree.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil && f.Name.Name == "event" {
			declared["coordinator."+f.Recv.List[0].Type.(*ast.Ident).Name] = true
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		for i, draw := range events {
			ev := draw(inputDraws{t})
			known[reflect.TypeOf(ev).String()] = true
			var c coder
			c.begin(someTime)
			if kind := c.input(&Input{someTime, ev}); int(kind) != i+1 {
				t.Errorf("%T has the kind %d, and had %d before", ev, kind, i+1)
			}
		}
	})
	if !maps.Equal(declared, known) || len(known) != lastEventKind {
		t.Errorf("coordinator/event.go has the events %v, the format %v: give the new one a kind in events.go and a line in events",
			slices.Sorted(maps.Keys(declared)), slices.Sorted(maps.Keys(known)))
	}
}

// What an agent says of an error, and what a task carries, is nobody's business here.
func TestInputsHoldNoErrorTexts(t *testing.T) {
	const secret = "password=hunter2"
	in := Input{someTime, coordinator.ResultReported{Result: coordinator.Result{Task: "t", Agent: "a", Error: secret}}}
	if message := AppendInputs(nil, Header{}, Recorded{Inputs: []Input{in}}); strings.Contains(string(message), secret) {
		t.Error("the message holds the error's text")
	}
}

// The recorder's messages are together what was added, in order, none larger than it
// may be unless it holds a single input, and never more than the bound allows.
func TestRecorderWithinItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bound := rapid.SampledFrom([]int64{0, 300, 600, 2_000, 50_000, 1 << 30}).Draw(t, "bound")
		r := NewRecorder("s-1", bound)
		var added, got []Input
		var size int64
		ended := false
		take := func(flush bool) {
			for {
				message, ok := r.Take(nil, Header{Epoch: 3}, flush)
				if !ok {
					return
				}
				h, part, err := DecodeInputs(message)
				switch {
				case err != nil:
					t.Fatal(err)
				case ended:
					t.Fatalf("a message follows the last")
				case h.First != uint64(len(got))+1:
					t.Fatalf("the message begins with input %d after %d", h.First, len(got))
				case part.Snapshot != "s-1" || h.Epoch != 3:
					t.Fatalf("it is of %q, epoch %d", part.Snapshot, h.Epoch)
				case len(message) > MaxInputsBytes && len(part.Inputs) > 1:
					t.Fatalf("a message of %d inputs has %d bytes", len(part.Inputs), len(message))
				}
				got, ended = append(got, part.Inputs...), part.Ended
				size += int64(len(message))
			}
		}
		for range rapid.IntRange(0, 20).Draw(t, "rounds") {
			for _, in := range drawInputs(t, 5) {
				if rapid.IntRange(0, 9).Draw(t, "giant at 0") == 0 {
					in.Event = coordinator.PolicyChanged{Policy: &coordinator.Policy{Source: strings.Repeat("x", 150_000)}}
				}
				full := r.Full()
				switch ok := r.Add(in.At, in.Event); {
				case ok && full:
					t.Fatal("an input is recorded after the bound was reached")
				case ok:
					added = append(added, in)
				case !r.Full():
					t.Fatal("an input is not recorded, and the recording goes on")
				}
			}
			take(rapid.Bool().Draw(t, "flush"))
		}
		take(true)
		sameInputs(t, got, added)
		if ended != r.Full() {
			t.Errorf("the last message says ended: %v, the recorder full: %v", ended, r.Full())
		}
		if size > r.Bytes() || bound >= 2*inputsOverhead && r.Bytes() > bound {
			t.Errorf("the messages have %d bytes, the recorder says %d, the bound is %d", size, r.Bytes(), bound)
		}
	})
}

// Whatever is in a message, reading it ends with an error at worst.
func FuzzDecodeInputs(f *testing.F) {
	message := AppendInputs(nil, Header{Epoch: 1, First: 1}, Recorded{Snapshot: "s", Inputs: []Input{
		{someTime, coordinator.PolicyChanged{Policy: &coordinator.Policy{Version: "v", Source: "agents: {}"}}},
		{someTime, coordinator.TaskReceived{Handle: 1, Task: &coordinator.Task{ID: "t", Type: "x"}}},
		{someTime, coordinator.AgentReported{Report: coordinator.AgentReport{Agent: "a", ActiveTasks: []coordinator.TaskID{"t"}}}},
		{someTime, coordinator.ResultReported{Result: coordinator.Result{Task: "t", Agent: "a", DispatchID: "t.1"}}},
	}})
	f.Add(message[fieldsAt:])
	f.Fuzz(func(t *testing.T, fields []byte) {
		body := sealed(fields)
		_, _, err := DecodeInputs(body)
		var corrupt *CorruptError
		var newer *NewerError
		if err != nil && !errors.As(err, &corrupt) && !errors.As(err, &newer) {
			t.Errorf("error %T: %v", err, err)
		}
	})
}

// sealed makes a message of inputs with a right checksum of arbitrary fields.
func sealed(fields []byte) []byte {
	body := append([]byte(magic), 0, 0, 0, 0, FormatVersion, byte(KindInputs))
	body = append(body, fields...)
	binary.LittleEndian.PutUint32(body[len(magic):], crc32.Checksum(body[versionAt:], castagnoli))
	return body
}

package journal

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"hash/crc32"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// anyEvent is one of any type with anything in it, but for what is left out.
func anyEvent(t *rapid.T) coordinator.Event {
	kind := reflect.TypeOf(rapid.SampledFrom(eventTypes[1:]).Draw(t, "type"))
	if kind == reflect.TypeFor[coordinator.PolicyChanged]() {
		return coordinator.PolicyChanged{Policy: &coordinator.Policy{Version: rapid.String().Draw(t, "version"),
			Source: rapid.String().Draw(t, "source")}}
	}
	v := reflect.New(kind).Elem()
	fill(t, v, kind.Name())
	switch ev := v.Interface().(type) {
	case coordinator.ResultReported:
		r := &ev.Result
		r.Error, r.Offset = "", -1
		r.DispatchID = rapid.OneOf(
			rapid.Just(""), rapid.String(), rapid.Just(string(r.Task)+".01"), rapid.Just(string(r.Task)+".+1"),
			rapid.Just(string(r.Task)+"."),
			rapid.Map(rapid.IntRange(-1, 1000), func(n int) string { return coordinator.AttemptID(r.Task, n) }),
			rapid.Map(rapid.IntRange(-1, 1000), func(n int) string {
				return coordinator.DispatchID(&coordinator.Task{ID: r.Task,
					AcceptedAt: time.UnixMilli(1_900_000_000_000 + int64(n))}, n)
			}),
		).Draw(t, "dispatch id")
		return ev
	case coordinator.AgentReported:
		r := &ev.Report
		if !r.HasCapacity {
			r.Capacity = 0
		}
		if !r.HasPending {
			r.Pending = 0
		}
		if r.ActiveTasks == nil && rapid.Bool().Draw(t, "it lists that it runs nothing") {
			r.ActiveTasks = []coordinator.TaskID{}
		}
		return ev
	case coordinator.Event:
		return ev
	default:
		t.Fatalf("%s is no event", kind)
		return nil
	}
}

// someTime is around when the drawn inputs come.
var someTime = time.Date(2030, 1, 1, 12, 0, 0, 123456789, time.UTC)

func drawInputs(t *rapid.T, most int) []Input {
	list := make([]Input, rapid.IntRange(0, most).Draw(t, "inputs"))
	at := someTime
	for i := range list {
		at = at.Add(time.Duration(rapid.Int64Range(0, 1e10).Draw(t, "after")))
		list[i] = Input{At: at, Event: anyEvent(t)}
	}
	return list
}

// sameInputs holds inputs that were read against those that were written.
func sameInputs(t *rapid.T, got, want []Input) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d inputs, want %d", len(got), len(want))
	}
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Fatalf("input %d:\ngot  %+v\nwant %+v", i, got[i], want[i])
		}
	}
}

func TestInputsComeBackAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Recorded{Snapshot: rapid.String().Draw(t, "snapshot"), Ended: rapid.Bool().Draw(t, "ended"),
			Inputs: drawInputs(t, 12)}
		first := rapid.Uint64Range(1, 1<<60).Draw(t, "first")
		h, got, err := DecodeInputs(AppendInputs(nil, Header{Epoch: 7, First: first, ResultOffset: 5, SnapshotOffset: -1},
			want))
		if err != nil {
			t.Fatal(err)
		}
		if h.Kind != KindInputs || h.First != first || h.Epoch != 7 || h.ResultOffset != 5 || h.SnapshotOffset != -1 ||
			h.Count != len(want.Inputs) {
			t.Errorf("header %+v", h)
		}
		if got.Snapshot != want.Snapshot || got.Ended != want.Ended {
			t.Errorf("recorded %+v", got)
		}
		sameInputs(t, got.Inputs, want.Inputs)
	})
}

// The format has a place for every event that there is.
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
	for _, ev := range eventTypes[1:] {
		known[reflect.TypeOf(ev).String()] = true
	}
	if !maps.Equal(declared, known) {
		t.Errorf("coordinator/event.go has the events %v, the format %v: give the new one a number in eventTypes",
			slices.Sorted(maps.Keys(declared)), slices.Sorted(maps.Keys(known)))
	}
}

// goldenInputs have nearly every field set.
func goldenInputs() []Input {
	a, b := coordinator.AgentID("agent-1"), coordinator.AgentID("agent-2")
	list := []coordinator.Event{
		coordinator.PolicyChanged{Policy: &coordinator.Policy{Version: "0123456789ab", Source: "agents: {}\n"}},
		coordinator.SessionOpened{Lost: goldenAt.Add(-time.Minute), Connected: goldenAt.Add(-time.Second)},
		coordinator.SessionLost{}, coordinator.DrainBegan{},
		coordinator.TaskReceived{Handle: 300, Task: goldenTask(), Redelivered: true},
		coordinator.TaskReturned{
			Handle: 301, Task: goldenTask(), Agent: a, Attempt: 2, Tried: []coordinator.AgentID{a, b},
			Failed: []coordinator.AgentID{b},
			Cause:  coordinator.ReturnExpired, Redelivered: true, MaybeDuplicate: true, Suspected: []coordinator.AgentID{b, b},
		},
		coordinator.AgentReported{Live: true, Report: coordinator.AgentReport{
			Agent: a, Status: coordinator.StatusBusy, Load: 0.75, Active: 3, Available: 1, MaxConcurrent: 4,
			ActiveTasks:  []coordinator.TaskID{"task-1", "task-2"},
			Capabilities: []string{"gpu"}, Queue: "agent.agent-1", Capacity: 1.5, Pending: 7, HasCapacity: true,
			HasPending: true, Relayed: true,
			Timestamp: goldenAt.Add(-time.Second), UserID: "agent-1", Labels: map[string]string{"zone": "b"},
		}},
		coordinator.DispatchSettled{Handle: 300, Outcome: coordinator.PublishUnknown},
		coordinator.QueueChecked{Agent: a, Exists: true},
		coordinator.ResultReported{Live: true, Untold: true, Result: coordinator.Result{
			Task: "task-1", Agent: a, DispatchID: "task-1.2", Outcome: coordinator.OutcomeRejected, Attempted: true,
			TraceID:   "trace-1",
			Timestamp: goldenAt.Add(-time.Millisecond), Duration: 1500 * time.Millisecond,
			Usage: &coordinator.Usage{Requests: 2, CostUSD: 0.5, Provider: "p", Model: "m"}, Offset: -1,
		}},
		coordinator.CancelRequested{Task: "task-1", Reason: "no longer wanted", Token: 9},
		coordinator.AgentOrdered{Agent: b, Order: coordinator.OrderDrain, Token: 4},
		coordinator.QueueSeen{Agent: b, Ready: 12, Consumers: 1},
		coordinator.TakeBackEnded{Agent: b}, coordinator.FailureTold{Task: "task-1"}, coordinator.Tick{},
		coordinator.BidReceived{Agent: a, Task: "task-1", AuctionID: "task-1.1", Fitness: 0.9, Active: 2,
			Duration: 30 * time.Second, Relevance: 0.25, TraceID: "trace-1"},
		coordinator.OfferUnheard{Agent: b},
		coordinator.ClaimReceived{Agent: a, ClaimID: "claim-1", MaxItems: 8, Pending: 3, Capacity: 16.5,
			Wait: 5 * time.Second, Token: 12},
		coordinator.TaskReceived{Handle: 302, Task: goldenTask(), Redelivered: true, Lane: "research", MaybeDuplicate: true},
		coordinator.LaneMoved{Handle: 302, Outcome: coordinator.PublishUnroutable},
		coordinator.LaneSeen{Lane: "research", Ready: 12, Missing: true},
		coordinator.LaneEnded{Lane: "research"}, coordinator.IntakeChanged{Window: 4000},
		coordinator.CallAsked{Token: 13, Calls: []coordinator.Call{{
			Op: coordinator.CallReserve, Key: coordinator.TaskKey{1, 2}, Keep: true, Agent: a, Group: "alpha", OwnOnly: true,
			Operation: "summarise",
			Usage:     coordinator.Usage{InputTokens: 1200, Provider: "openai", Model: "gpt-4o"}, Meant: coordinator.UsagePart,
			Seats: 1, NoBorrowing: true,
			Priority: coordinator.PriorityHigh, TTL: time.Minute, ChargeUntold: true,
			Routes: []coordinator.Service{{Provider: "openai", Model: "gpt-4o"}, {Provider: "lab"}},
			Heard: &coordinator.ProviderWord{Status: 429, RetryAfter: 20 * time.Second, Told: 2,
				Remains: coordinator.Amounts{0, 5}, Latency: time.Second},
		}}},
		coordinator.QuotaControlsRequested{Set: []coordinator.QuotaControl{{
			ID: "set-11223344", Target: "pool/alpha", Key: "weight", Value: "5", At: goldenAt, By: "ann",
			Reason: "it is short of tokens",
		}}, Remove: []string{"boost-0a1b2c3d"}, Token: 13},
		coordinator.PublishingHeld{Held: true},
	}
	inputs := make([]Input, len(list))
	for i, ev := range list {
		inputs[i] = Input{goldenAt.Add(time.Duration(i) * time.Millisecond), ev}
	}
	return inputs
}

// The format of inputs does not change by accident, either (see TestFormatIsWhatItWas).
func TestInputsAreWrittenAsTheyWere(t *testing.T) {
	const file = "testdata/inputs-2.txt"
	inputs := goldenInputs()
	body := AppendInputs(nil, Header{Epoch: 7, First: 1, ResultOffset: 5000, SnapshotOffset: 200},
		Recorded{Snapshot: "s1", Ended: true, Inputs: inputs})
	text := hex.EncodeToString(body) + "\n"
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(golden) {
		t.Errorf(
			"inputs are written otherwise than in %s: an older reader would misunderstand them. If that is meant, raise "+
				"FormatVersion", file)
	}
	if body, err = hex.DecodeString(strings.TrimSpace(string(golden))); err != nil {
		t.Fatal(err)
	}
	_, got, err := DecodeInputs(body)
	if err != nil {
		t.Fatal(err)
	}
	if got.Snapshot != "s1" || !got.Ended || !reflect.DeepEqual(got.Inputs, inputs) {
		t.Errorf("read as %+v, was written as %+v", got, inputs)
	}
}

// What an agent says of an error, and what a task carries, is not kept here.
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
		{someTime, coordinator.AgentReported{Report: coordinator.AgentReport{Agent: "a",
			ActiveTasks: []coordinator.TaskID{"t"}}}},
		{someTime, coordinator.ResultReported{Result: coordinator.Result{Task: "t", Agent: "a", DispatchID: "t.1"}}},
	}})
	f.Add(message[fieldsAt:])
	f.Fuzz(func(t *testing.T, fields []byte) {
		body := sealed(fields)
		_, _, err := DecodeInputs(body)
		var corrupt *CorruptError
		var newer *VersionError
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

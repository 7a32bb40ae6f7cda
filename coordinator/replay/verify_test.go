package replay

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/journal"
)

// eventful is a term of three minutes in which about everything happens.
func eventful(t testing.TB, bound int64) (*term, book) { return eventfulAsked(t, bound, nil) }

// eventfulAsked is the same with a reader that asks the engine before each event.
func eventfulAsked(t testing.TB, bound int64, asked func(time.Time, *engine.Engine)) (*term, book) {
	first := policyOf("v1", "reward_rate", "a", "b", "c", "d")
	second := policyOf("v2", "least_loaded", "a", "b", "c", "d", "e")
	before := &coordinator.Task{ID: "old-1", Type: "embed", AcceptedAt: epoch.Add(-time.Minute), ContentHash: 9}
	history := []journal.Input{
		{At: epoch.Add(-2 * time.Minute), Event: coordinator.SessionOpened{}},
		{At: epoch.Add(-2 * time.Minute), Event: coordinator.AgentReported{Live: true, Report: coordinator.AgentReport{
			Agent: "a", Status: coordinator.StatusReady, Available: 3, ActiveTasks: []coordinator.TaskID{},
			Timestamp: epoch.Add(-2 * time.Minute)}}},
		{At: epoch.Add(-time.Minute), Event: coordinator.TaskReceived{Handle: 1, Task: before}},
		{At: epoch.Add(-time.Minute), Event: coordinator.DispatchSettled{Handle: 1, Outcome: coordinator.PublishConfirmed}},
		{At: epoch.Add(-time.Minute), Event: coordinator.AgentOrdered{Agent: "d", Order: coordinator.OrderCordon}},
	}
	w := newTerm(t, first, bound, []*worker{
		{id: "a", mean: time.Second, fails: 0.05}, {id: "b", mean: 2 * time.Second, fails: 0.3, refuses: 0.1,
			ticks: 90 * time.Second},
		{id: "c", mean: 500 * time.Millisecond, refuses: 0.2}, {id: "d", mean: time.Second},
		{id: "e", mean: time.Second, plain: true, ticks: -time.Minute},
	}, history...)
	w.asked = asked
	w.arrive("embed", 2, 150*time.Second)
	w.arrive("translate", 2, 150*time.Second)
	w.arrive("unheard-of", 0.05, 150*time.Second)
	for _, at := range []struct {
		after time.Duration
		what  func()
	}{
		{20 * time.Second, func() { w.do(coordinator.AgentOrdered{Agent: "d", Order: coordinator.OrderUncordon}) }},
		{40 * time.Second, func() { w.vanish(w.workers["c"], 40*time.Second) }},
		{60 * time.Second, func() { w.do(coordinator.PolicyChanged{Policy: second}) }},
		{75 * time.Second, func() { w.loseSession(3 * time.Second) }},
		{90 * time.Second, func() { w.do(coordinator.CancelRequested{Task: "embed-150", Reason: "not wanted", Token: 4}) }},
		{91 * time.Second, func() { w.do(coordinator.CancelRequested{Task: "embed-200", Token: 5}) }},
		{100 * time.Second, func() { w.do(coordinator.AgentOrdered{Agent: "a", Order: coordinator.OrderDrain}) }},
		{120 * time.Second, func() { w.do(coordinator.AgentOrdered{Agent: "a", Order: coordinator.OrderUncordon}) }},
		{130 * time.Second, func() { w.do(coordinator.QueueSeen{Agent: "b", Ready: 1, Consumers: 1}) }},
		{179 * time.Second, func() { w.do(coordinator.DrainBegan{}) }},
	} {
		w.after(at.after, at.what)
	}
	w.until(epoch.Add(180 * time.Second))
	w.flush(true)
	return w, book{"v1": first, "v2": second}
}

func TestTheSameAgainIsIdentical(t *testing.T) {
	w, policies := eventful(t, 1<<30)
	r := recording(t, w.messages)
	v, err := r.Verify(policies.find)
	if err != nil {
		t.Fatal(err)
	}
	if v.Difference != nil {
		t.Fatalf("after %d records: %v", v.Records, v.Difference)
	}
	if v.Records != w.records || v.Decisions != w.decisions || v.Unrecorded+v.Unjournalled != 0 || len(r.Notes()) != 0 {
		t.Errorf("%+v, notes %q; the leader journalled %d records with %d decisions", v, r.Notes(), w.records, w.decisions)
	}
	kinds := make(map[string]int)
	for j := r.journalled(); ; j.pass() {
		record, err := j.peek()
		if err != nil {
			t.Fatal(err)
		}
		if record == nil {
			break
		}
		kinds[recordName(record)]++
	}
	for _, kind := range []string{"Assigned", "Settled", "LeaseChanged", "Remembered", "Learnt", "Ordered", "Tracked"} {
		if kinds[kind] == 0 {
			t.Errorf("no %s among %v: the term is not eventful enough to show anything", kind, kinds)
		}
	}
	if w.decisions < 500 {
		t.Errorf("%d decisions, want several hundred", w.decisions)
	}
}

// Whatever happens in a term, it replays, and can be compared with any other policy.
func TestAnyTermReplays(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		names := []string{"capability_match", "round_robin", "least_loaded", "priority_based", "load_balanced", "reward_rate",
			"weighted"}
		p := policyOf("v1", rapid.SampledFrom(names).Draw(rt, "strategy"), "a", "b", "c")
		p.Settings.MaxRetryAttempts = rapid.IntRange(1, 3).Draw(rt, "retries")
		p.Settings.PoisonedAfter = rapid.IntRange(1, 3).Draw(rt, "poisoned after")
		p.Settings.SuspectIntervals = rapid.IntRange(0, 2).Draw(rt, "suspect after")
		p.Settings.SlowStart = time.Duration(rapid.IntRange(0, 1).Draw(rt, "slow start")) * 20 * time.Second
		p.Settings.Breaker.Consecutive = rapid.IntRange(1, 5).Draw(rt, "consecutive faults")
		p.Settings.AssignmentTimeout = time.Duration(rapid.SampledFrom([]int{0, 3, 20}).
			Draw(rt, "assignment timeout")) * time.Second
		var workers []*worker
		for i := range p.Agents {
			a := &p.Agents[i]
			a.MaxConcurrent = rapid.IntRange(1, 3).Draw(rt, "slots")
			a.Timeout = time.Duration(rapid.SampledFrom([]int{2, 30}).Draw(rt, "timeout")) * time.Second
			workers = append(workers, &worker{
				id: a.ID, mean: time.Duration(rapid.IntRange(100, 4000).Draw(rt, "milliseconds")) * time.Millisecond,
				fails: rapid.SampledFrom([]float64{0, 0.1, 0.8}).Draw(rt, "fails"), refuses: rapid.SampledFrom([]float64{0, 0.2}).
					Draw(rt, "refuses"),
				plain: rapid.IntRange(0, 5).Draw(rt, "plain at 0") == 0,
				ticks: time.Duration(rapid.IntRange(-100, 100).Draw(rt, "clock")) * time.Second,
			})
		}
		workers[0].plain = false // one must report how long tasks take
		w := newTermOf(t, rapid.Uint64().Draw(rt, "dice"), p, 1<<30, workers)
		w.arrive("embed", 1, 30*time.Second)
		w.arrive("translate", rapid.Float64Range(0.1, 4).Draw(rt, "translations a second"), 30*time.Second)
		for range rapid.IntRange(0, 6).Draw(rt, "incidents") {
			after := time.Duration(rapid.IntRange(1, 35).Draw(rt, "after")) * time.Second
			who := rapid.SampledFrom(workers).Draw(rt, "who")
			w.after(after, rapid.SampledFrom([]func(){
				func() { w.vanish(who, 20*time.Second) },
				func() {
					if w.up {
						w.loseSession(2 * time.Second)
					}
				},
				func() { w.do(coordinator.PolicyChanged{Policy: p}) },
				func() { w.do(coordinator.AgentOrdered{Agent: who.id, Order: coordinator.OrderDrain}) },
				func() { w.do(coordinator.AgentOrdered{Agent: who.id, Order: coordinator.OrderUncordon}) },
				func() { w.do(coordinator.CancelRequested{Task: "embed-20", Reason: "no", Token: 1}) },
				func() { w.submit("embed-7", "embed") },
			}).Draw(rt, "incident"))
		}
		w.until(epoch.Add(40 * time.Second))
		w.flush(true)
		r := recording(t, w.messages)
		v, err := r.Verify(book{"v1": p}.find)
		if err != nil {
			rt.Fatal(err)
		}
		if v.Difference != nil || v.Records != w.records {
			rt.Fatalf("after %d of %d records: %v", v.Records, w.records, v.Difference)
		}
		c, err := r.Compare(book{"v1": p}.find, book{"v1": p}.under(rapid.SampledFrom(names).Draw(rt, "other strategy")))
		if errors.Is(err, ErrNoEndings) {
			return
		}
		if err != nil {
			rt.Fatal(err)
		}
		for _, k := range c.Types {
			if k.Before.Tasks != k.Recorded.Tasks || k.After.Tasks != k.Recorded.Tasks || k.After.Open < 0 || k.Before.Open < 0 {
				rt.Fatalf("%+v", k)
			}
		}
	})
}

// What people, metrics and auditors ask the engine is not recorded: it must not change
// what the engine does.
func TestQuestionsChangeNothing(t *testing.T) {
	task := &coordinator.Task{ID: "supposed", Type: "embed", ContentHash: 1, AcceptedAt: epoch}
	w, policies := eventfulAsked(t, 1<<30, func(now time.Time, e *engine.Engine) {
		e.Snapshot(now)
		e.Capabilities(now)
		e.Explain(now, task)
		e.Watched(now, 2)
		e.Audit(now)
		e.Image(now).Records(func(coordinator.Record) bool { return true })
		e.Delayed("embed-3")
		e.Gathering("translate-3")
	})
	v, err := recording(t, w.messages).Verify(policies.find)
	if err != nil {
		t.Fatal(err)
	}
	if v.Difference != nil {
		t.Fatalf("after %d records: %v", v.Records, v.Difference)
	}
}

// Under another policy other decisions come out, and the first is found and explained.
func TestAnotherPolicyDiffers(t *testing.T) {
	w, policies := eventful(t, 1<<30)
	v, err := recording(t, w.messages).Verify(policies.under("round_robin"))
	if err != nil {
		t.Fatal(err)
	}
	if v.Difference == nil {
		t.Fatal("identical, though the strategy is another")
	}
	if text := v.Difference.String(); !strings.Contains(text, "Assigned of ") ||
		!strings.Contains(text, "Strategy was reward_rate, is round_robin") ||
		!strings.Contains(text, "the replayed choice: ") {
		t.Errorf("the difference is %q", text)
	}
}

// A byte that has changed on its way is found by the checksum; inputs and records that
// do not belong together are found by the replay, whatever their checksums say.
func TestChangesAreFound(t *testing.T) {
	w, policies := eventful(t, 1<<30)
	t.Run("a byte", func(t *testing.T) {
		for i, m := range w.messages {
			changed := append([]byte(nil), m...)
			changed[len(changed)/2] ^= 1
			var c Collector
			if err := c.Take(int64(i), changed); err == nil || !strings.Contains(err.Error(), "damaged") {
				t.Fatalf("message %d: error %v", i, err)
			}
		}
	})
	for _, c := range []struct {
		name, want string
		change     func(m *changeable)
	}{
		{"an input is left out", "", func(m *changeable) {
			i := 100 + slices.IndexFunc(m.inputs[100:],
				func(in journal.Input) bool { return eventName(in.Event) == "TaskReceived" })
			m.inputs = slices.Delete(m.inputs, i, i+1)
		}},
		{"an input comes a nanosecond later", "At was", func(m *changeable) {
			for i := range m.inputs {
				received, ok := m.inputs[i].Event.(coordinator.TaskReceived)
				if ok && received.Task.Type == "embed" && m.inputs[i+1].At.After(m.inputs[i].At) {
					m.inputs[i].At = m.inputs[i].At.Add(1)
					return
				}
			}
		}},
		{"a record names another agent", "Agent was z, is ", func(m *changeable) {
			for _, r := range m.records[200:] {
				if a, ok := r.(*coordinator.Assigned); ok {
					a.Agent = "z"
					return
				}
			}
		}},
		{"a record is missing", "", func(m *changeable) { m.records = slices.Delete(m.records, 50, 51) }},
		{"the state is another", "", func(m *changeable) { m.state = nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := opened(t, w.messages)
			c.change(m)
			v, err := recording(t, m.messages()).Verify(policies.find)
			if err != nil {
				t.Fatal(err)
			}
			if v.Difference == nil {
				t.Fatalf("identical: %+v", v)
			}
			if !strings.Contains(v.Difference.String(), c.want) {
				t.Errorf("the difference is %q, want %q in it", v.Difference, c.want)
			}
		})
	}
	t.Run("nothing at all", func(t *testing.T) {
		v, err := recording(t, opened(t, w.messages).messages()).Verify(policies.find)
		if err != nil || v.Difference != nil {
			t.Error(v, err)
		}
	})
}

// changeable is what the messages of one recording say.
type changeable struct {
	header         journal.Header
	state, records []coordinator.Record
	inputs         []journal.Input
}

func opened(t *testing.T, messages [][]byte) *changeable {
	c := &changeable{}
	for _, body := range messages {
		m, err := journal.Decode(body)
		if err != nil {
			t.Fatal(err)
		}
		switch m.Kind {
		case journal.KindSnapshot:
			c.header = m.Header
			c.state = append(c.state, m.Records...)
		case journal.KindBatch:
			c.records = append(c.records, m.Records...)
		case journal.KindInputs:
			_, recorded, err := journal.DecodeInputs(body)
			if err != nil {
				t.Fatal(err)
			}
			c.inputs = append(c.inputs, recorded.Inputs...)
		}
	}
	return c
}

// messages writes it again, with checksums that are right.
func (c *changeable) messages() [][]byte {
	inputs := c.header
	inputs.First = 1
	return [][]byte{
		journal.AppendSnapshot(nil, c.header, journal.Chunk{Snapshot: "s-1", Last: true}, c.state),
		journal.AppendBatch(nil, c.header, c.records),
		journal.AppendInputs(nil, inputs, journal.Recorded{Snapshot: "s-1", Inputs: c.inputs}),
	}
}

// A recording that has reached its bound is identical as far as it goes, and says so.
func TestABoundedRecording(t *testing.T) {
	w, policies := eventful(t, 20_000)
	r := recording(t, w.messages)
	v, err := r.Verify(policies.find)
	if err != nil || v.Difference != nil {
		t.Fatal(v, err)
	}
	if v.Unrecorded == 0 || v.Records == 0 || v.Records+v.Unrecorded != w.records {
		t.Errorf("%+v, want a part of the %d records compared", v, w.records)
	}
	if notes := r.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "max_bytes") {
		t.Errorf("notes %q", notes)
	}
}

// What an export can hold beside one whole recording.
func TestRecordingsInAnExport(t *testing.T) {
	w, policies := eventful(t, 1<<30)
	read := func(messages ...[]byte) ([]*Recording, error) {
		var c Collector
		for i, m := range messages {
			if err := c.Take(int64(i), m); err != nil {
				t.Fatal(err)
			}
		}
		return c.Recordings()
	}
	verified := func(messages ...[]byte) *Verification {
		list, err := read(messages...)
		if err != nil || len(list) != 1 {
			t.Fatalf("%d recordings, %v", len(list), err)
		}
		v, err := list[0].Verify(policies.find)
		if err != nil || v.Difference != nil {
			t.Fatal(v, err)
		}
		return v
	}
	whole := verified(w.messages...)
	t.Run("messages that were sent twice", func(t *testing.T) {
		var twice [][]byte
		for _, m := range w.messages {
			twice = append(twice, m, m)
		}
		if v := verified(twice...); v.Records != whole.Records {
			t.Errorf("%+v, want %+v", v, whole)
		}
	})
	t.Run("messages of a leader that does not lead any more", func(t *testing.T) {
		h := journal.Header{Epoch: 6, First: 101, At: epoch}
		void := journal.AppendBatch(nil, h, []coordinator.Record{&coordinator.Tracked{Agent: "z"}})
		if v := verified(append(w.messages[:5:5],
			append([][]byte{void}, w.messages[5:]...)...)...); v.Records != whole.Records {
			t.Errorf("%+v, want %+v", v, whole)
		}
	})
	t.Run("the journal ends early", func(t *testing.T) {
		last := w.messages[len(w.messages)-1] // the inputs of all
		if v := verified(append(w.messages[:len(w.messages)/2:len(w.messages)/2], last)...); v.Unjournalled == 0 ||
			v.Records+v.Unjournalled != whole.Records {
			t.Errorf("%+v, want the rest of %d records as not journalled", v, whole.Records)
		}
	})
	t.Run("the snapshot is missing", func(t *testing.T) {
		if _, err := read(w.messages[2:]...); err == nil || !strings.Contains(err.Error(), "--all") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("nothing was recorded", func(t *testing.T) {
		if _, err := read(w.messages[:len(w.messages)-1]...); !errors.Is(err, ErrNothingRecorded) {
			t.Errorf("error %v", err)
		}
	})
}

// batchesOf are the places of the messages of records.
func batchesOf(t *testing.T, messages [][]byte) (at []int) {
	t.Helper()
	for i, m := range messages {
		h, err := journal.DecodeHeader(m)
		if err != nil {
			t.Fatal(err)
		}
		if h.Kind == journal.KindBatch {
			at = append(at, i)
		}
	}
	return at
}

// What is missing in the middle is a difference, and what could not be compared is counted: an
// export that lacks records is never told to be identical without a word.
func TestMissingRecordsAreToldOf(t *testing.T) {
	w, policies := eventful(t, 1<<30)
	batches := batchesOf(t, w.messages)
	whole := w.messages
	verified := func(messages [][]byte) Report {
		r := recording(t, messages)
		v, err := r.Verify(policies.find)
		if err != nil {
			t.Fatal(err)
		}
		return r.Report(v)
	}
	all := verified(whole)
	if !all.Identical || all.NotCompared() != 0 {
		t.Fatalf("of the whole: %+v", all)
	}
	for name, c := range map[string]struct {
		without         []int // batches, by their number
		identical, hole bool
	}{
		"one in the middle": {[]int{len(batches) / 4}, false, true},
		"the first":         {[]int{0}, false, true},
		"two together":      {[]int{len(batches) / 2, len(batches)/2 + 1}, false, true},
		"the last":          {[]int{len(batches) - 1}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			gone, lost := map[int]bool{}, 0
			for _, n := range c.without {
				gone[batches[n]] = true
				h, err := journal.DecodeHeader(whole[batches[n]])
				if err != nil {
					t.Fatal(err)
				}
				lost += h.Count
			}
			var rest [][]byte
			for i, m := range whole {
				if !gone[i] {
					rest = append(rest, m)
				}
			}
			got := verified(rest)
			if got.Identical != c.identical || (got.Difference != nil) != c.hole {
				t.Errorf("%+v", got)
			}
			if c.hole && !strings.Contains(got.Difference.Text, fmt.Sprintf("it and the %d records behind it are missing",
				lost-1)) {
				t.Errorf("%d records are missing, and it says: %s", lost, got.Difference.Text)
			}
			if !c.hole && (got.NotCompared() != lost || got.Records != all.Records-lost) {
				t.Errorf("%d records are missing of %d: %+v", lost, all.Records, got)
			}
		})
	}
	none := verified(slices.DeleteFunc(slices.Clone(whole), func(m []byte) bool {
		h, err := journal.DecodeHeader(m)
		return err == nil && h.Kind == journal.KindBatch
	}))
	var text strings.Builder
	if err := none.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if none.Identical || none.NotCompared() != all.Records ||
		!strings.Contains(text.String(), "nothing compared: 0 decisions") {
		t.Errorf("without any records: %+v\n%s", none, &text)
	}
}

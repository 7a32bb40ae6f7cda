package messages

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
)

func TestTaskResultCorpus(t *testing.T) {
	d := newDecoder(t)
	for _, c := range results {
		t.Run(c.name, func(t *testing.T) {
			var m TaskResult
			checkVerdict(t, d.DecodeTaskResult([]byte(c.body), &m), c.path, c.keyword)
			checkTaskResult(t, d, []byte(c.body))
		})
	}
}

func TestTaskCancelCorpus(t *testing.T) {
	d := newDecoder(t)
	for _, c := range cancels {
		t.Run(c.name, func(t *testing.T) {
			m, refusal := d.DecodeTaskCancel([]byte(c.body))
			checkVerdict(t, refusal, c.path, c.keyword)
			if (m == nil) == (refusal == nil) {
				t.Fatalf("exactly one of message and refusal is expected, got %v and %v", m, refusal)
			}
		})
	}
}

func FuzzTaskResult(f *testing.F) {
	d := newDecoder(f)
	for _, c := range results {
		f.Add([]byte(c.body))
	}
	f.Fuzz(func(t *testing.T, body []byte) { checkTaskResult(t, d, body) })
}

func checkTaskResult(t tester, d *Decoder, body []byte) {
	t.Helper()
	original := bytes.Clone(body)
	// A used value must make no difference, nor be touched through what was taken
	// from it.
	earlier := &Usage{Requests: 7, Provider: "p", Model: "m"}
	fast, slow := TaskResult{TaskID: "t-1", AgentID: "a-1", Attempted: true, Attempt: 7, Error: "old", Usage: earlier},
		TaskResult{}
	ok := d.fastTaskResult(body, &fast)
	refusal := d.slowTaskResult(body, &slow)
	if !bytes.Equal(original, body) {
		t.Fatal("decoding has changed the body")
	}
	if *earlier != (Usage{Requests: 7, Provider: "p", Model: "m"}) || fast.Usage == earlier && ok {
		t.Fatalf("the usage of an earlier result was used again: %+v", earlier)
	}
	if requireAgreement(t, body, fast, ok, slow, refusal); refusal != nil {
		return
	}
	r := slow.Result()
	if r.Outcome.String() != string(slow.Outcome) || r.Duration < 0 || len(r.Error) > MaxText || r.Attempted &&
		r.Outcome.Final() {
		t.Fatalf("result %+v of %s", r, body)
	}
	event := AppendTaskCompleted(nil, &coordinator.Completed{Result: r, Attempt: 1, At: at})
	m, refusal := d.DecodeTaskCompleted(event)
	switch {
	case !r.Outcome.Final(): // No task has ended so.
	case refusal != nil:
		t.Fatalf("its event is refused: %s\n%s", refusal.Text, event)
	case m.Outcome != slow.Outcome || m.Error != r.Error || (m.Usage == nil) != (r.Usage == nil):
		t.Fatalf("its event says %+v, the result %+v", m, slow)
	}
}

func TestTaskResultValue(t *testing.T) {
	d := newDecoder(t)
	var m TaskResult
	body := result(`"dispatch_id":"t-1.2","attempt":2,"duration_ms":1500.25,"error":"exit 1\u0000\u202e","attempted":true`,
		`"usage":{"requests":2,"input_tokens":1200,"output_tokens":300,"cost_usd":0.5,"provider":"p","model":"m"}`)
	rejected := strings.Replace(body, "succeeded", "rejected", 1)
	usage := &coordinator.Usage{Requests: 2, InputTokens: 1200, OutputTokens: 300, CostUSD: 0.5, Provider: "p", Model: "m"}
	want := coordinator.Result{
		Task: "t-1", Agent: "a-1", DispatchID: "t-1.2", Outcome: coordinator.OutcomeSucceeded, TraceID: "trace_1",
		Timestamp: time.Date(2026, 1, 31, 23, 59, 59, 0, time.UTC),
		Duration:  1_500_250 * time.Microsecond, // 1,500.25 ms
		Error:     "exit 1  ",                   // cleaned of what is no text
		Usage:     usage,
	}
	for _, c := range []struct {
		body      string
		outcome   coordinator.Outcome
		attempted bool
	}{
		{body, coordinator.OutcomeSucceeded, false}, // attempted means nothing here
		{rejected, coordinator.OutcomeRejected, true},
	} {
		if refusal := d.DecodeTaskResult([]byte(c.body), &m); refusal != nil {
			t.Fatal(refusal.Text)
		}
		want.Outcome, want.Attempted = c.outcome, c.attempted
		if got := m.Result(); !reflect.DeepEqual(got, want) {
			t.Errorf("result\n%+v, want\n%+v", got, want)
		}
	}
	// The longest duration that the schema admits: 1e12 ms are 1e18 ns, and an
	// int64 counts to 9.2e18.
	if got, want := (&TaskResult{DurationMS: maxDuration}).Result().Duration, time.Duration(1e18); got != want {
		t.Errorf("the longest duration is %v, want %v", got, want)
	}
}

// Every outcome has a word, the same on both sides.
func TestOutcomeWords(t *testing.T) {
	words := []Outcome{Succeeded, Failed, Rejected, Cancelled}
	if len(words) != coordinator.NumOutcomes {
		t.Fatalf("%d words for %d outcomes", len(words), coordinator.NumOutcomes)
	}
	for i, word := range words {
		got, known := outcomeOf(word)
		if want := coordinator.Outcome(i); got != want || !known || want.String() != string(word) {
			t.Errorf("%q reads as %s (known: %v), want %s", word, got, known, want)
		}
	}
	if _, known := outcomeOf("lost"); known {
		t.Error("an unheard-of outcome is known")
	}
}

package replay

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
)

// sinkhole is a fleet of four of which one fails most of what it is given, and at
// once, so that it looks idle; no agent is ejected. The term lasts ten minutes.
func sinkhole(t testing.TB, chosen string) (*term, book) {
	p := policyOf("v1", chosen, "a", "b", "c", "sink")
	p.Settings.Breaker.Off = true
	w := newTerm(t, p, 1<<30, []*worker{
		{id: "a", mean: time.Second, fails: 0.02}, {id: "b", mean: time.Second, fails: 0.02},
		{id: "c", mean: 3 * time.Second, fails: 0.02}, {id: "sink", mean: 200 * time.Millisecond, fails: 0.8},
	})
	w.arrive("embed", 2, 590*time.Second)
	w.until(epoch.Add(600 * time.Second))
	w.flush(true)
	return w, book{"v1": p}
}

func compared(t testing.TB, w *term, recorded, other Policies) *Comparison {
	t.Helper()
	c, err := recording(t, w.messages).Compare(recorded, other)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// load_balanced divides by the load what it knows of an agent's success; round robin
// gives everybody the same. Where one agent fails four of five tasks that makes a
// difference: round robin loses (3·0.02 + 0.8)/4 = 21.5 % of the tasks. What the model
// says of load_balanced is held against a term that it truly led.
func TestWhatIfLoadBalanced(t *testing.T) {
	w, policies := sinkhole(t, "round_robin")
	c := compared(t, w, policies.find, policies.under("load_balanced"))
	before, after := c.All.Before, c.All.After
	if share := float64(before.Failed) / float64(before.Tasks); math.Abs(share-0.215) > 0.03 {
		t.Errorf("round robin fails %.3f of the tasks, want about 0.215", share)
	}
	if after.Failed*2 > before.Failed {
		t.Errorf("load_balanced fails %d of %d tasks, round robin %d: want less than half", after.Failed, after.Tasks,
			before.Failed)
	}
	if i := slices.IndexFunc(c.Types[0].Shares, func(s Share) bool { return s.Agent == "sink" }); i != 0 ||
		c.Types[0].Shares[0].After > 0.6*c.Types[0].Shares[0].Before {
		t.Errorf("shares %+v, want the largest change to be that the sink gets less", c.Types[0].Shares)
	}

	other, its := sinkhole(t, "load_balanced")
	truth := compared(t, other, its.find, its.find).All.Recorded
	for _, v := range []struct {
		name        string
		model, true int
	}{{"failed", after.Failed, truth.Failed}, {"succeeded", after.Succeeded, truth.Succeeded}} {
		if diff := math.Abs(float64(v.model-v.true)) / float64(truth.Tasks); diff > 0.03 {
			t.Errorf("%s: the model says %d, the truth is %d of %d tasks", v.name, v.model, v.true, truth.Tasks)
		}
	}
}

// Under the recorded policy the model does what truly happened, but for small things.
func TestTheModelOfTheSameIsLikeTheRecording(t *testing.T) {
	for _, c := range []struct {
		name string
		term func(testing.TB) (*term, book)
	}{
		{"sinkhole", func(t testing.TB) (*term, book) { return sinkhole(t, "load_balanced") }},
		{"eventful", func(t testing.TB) (*term, book) { return eventful(t, 1<<30) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, policies := c.term(t)
			for _, k := range compared(t, w, policies.find, policies.find).Types {
				got, want := k.Before, k.Recorded
				if got.Tasks != want.Tasks {
					t.Errorf("%s: %d tasks, want %d", k.Type, got.Tasks, want.Tasks)
				}
				for _, v := range []struct {
					name        string
					model, true int
				}{
					{"succeeded", got.Succeeded, want.Succeeded}, {"failed", got.Failed, want.Failed},
					{"refused", got.Refused, want.Refused},
					{"cancelled", got.Cancelled, want.Cancelled}, {"open", got.Open, want.Open},
					{"came back", got.CameBack, want.CameBack},
				} {
					if diff := math.Abs(float64(v.model - v.true)); diff > 0.04*float64(want.Tasks) {
						t.Errorf("%s: %d tasks %s in the model, %d in truth", k.Type, v.model, v.name, v.true)
					}
				}
				if math.Abs(got.WaitP50-want.WaitP50) > 0.05 || math.Abs(got.TotalP50-want.TotalP50) > 0.25*want.TotalP50+0.05 {
					t.Errorf("%s: wait %.3f and total %.3f s in the model, %.3f and %.3f in truth", k.Type, got.WaitP50, got.TotalP50,
						want.WaitP50, want.TotalP50)
				}
				if !slices.EqualFunc(got.Reasons, want.Reasons, func(a, b ReasonCount) bool { return a.Reason == b.Reason }) {
					t.Errorf("%s: refused for %v in the model, for %v in truth", k.Type, got.Reasons, want.Reasons)
				}
			}
		})
	}
}

// Every task that came is counted once, whatever happened to it.
func TestResultsAddUp(t *testing.T) {
	w, policies := eventful(t, 1<<30)
	c := compared(t, w, policies.find, policies.under("round_robin"))
	for _, k := range append(c.Types, c.All) {
		for _, r := range []Result{k.Recorded, k.Before, k.After} {
			refused := 0
			for _, reason := range r.Reasons {
				refused += reason.Tasks
			}
			if r.Open < 0 || r.Tasks != k.Recorded.Tasks || k.Type != "all" && refused != r.Refused {
				t.Errorf("%s: %+v", k.Type, r)
			}
		}
		var before, after float64
		for _, s := range k.Shares {
			before, after = before+s.Before, after+s.After
		}
		if len(k.Shares) > 0 && (math.Abs(before-1) > 1e-9 || math.Abs(after-1) > 1e-9) {
			t.Errorf("%s: the shares add up to %g and %g", k.Type, before, after)
		}
	}
	for _, e := range []Endings{c.EndingsBefore, c.EndingsAfter} {
		if sum := e.AsRecorded + e.ItsOwn + e.OfOthers + e.OfAnyType; math.Abs(sum-1) > 1e-9 {
			t.Errorf("the endings add up to %g", sum)
		}
	}
}

func TestComparisonsRepeat(t *testing.T) {
	w, policies := eventful(t, 1<<30)
	text := func() string {
		c := compared(t, w, policies.find, policies.under("load_balanced"))
		var b bytes.Buffer
		if err := c.WriteJSON(&b); err != nil {
			t.Fatal(err)
		}
		if err := c.WriteTable(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	first := text()
	for range 3 {
		if again := text(); again != first {
			t.Fatalf("the same comparison gave\n%s\nand\n%s", first, again)
		}
	}
}

// Agents that the other configuration lists and that never reported are named: no agent
// knows what they would have done. Without them tasks have one agent less to go to.
func TestWhatIfAnotherFleet(t *testing.T) {
	w, policies := sinkhole(t, "round_robin")
	smaller := policyOf("v2", "round_robin", "a", "b", "unheard")
	c := compared(t, w, policies.find, func(*coordinator.Policy) (*coordinator.Policy, error) { return smaller, nil })
	if len(c.Notes) != 1 || !strings.HasSuffix(c.Notes[0], ": unheard") {
		t.Errorf("notes %q", c.Notes)
	}
	for _, s := range c.Types[0].Shares {
		if got := s.After > 0; got != (s.Agent == "a" || s.Agent == "b") {
			t.Errorf("%s gets %.2f of the tasks", s.Agent, s.After)
		}
	}
	if c.All.After.Failed*3 > c.All.Before.Failed {
		t.Errorf("%d tasks fail without the sink, %d with it", c.All.After.Failed, c.All.Before.Failed)
	}
}

func TestWhatCannotBeCompared(t *testing.T) {
	w, policies := sinkhole(t, "round_robin")
	r := recording(t, w.messages)
	var differs *DiffersError
	if _, err := r.Compare(policies.under("least_loaded"), policies.find); !errors.As(err, &differs) {
		t.Errorf("a recording that does not replay: %v", err)
	}
	if _, err := r.Compare(policies.find, policies.under("expression")); err == nil ||
		!strings.Contains(err.Error(), "formula") {
		t.Errorf("a strategy that needs a formula: %v", err)
	}

	p := policyOf("v1", "round_robin", "a")
	plain := newTerm(t, p, 1<<30, []*worker{{id: "a", mean: time.Second, plain: true}})
	plain.arrive("embed", 1, 20*time.Second)
	plain.until(epoch.Add(30 * time.Second))
	plain.flush(true)
	if _, err := recording(t, plain.messages).Compare(book{"v1": p}.find, book{"v1": p}.find); err == nil ||
		!strings.Contains(err.Error(), "task.result") {
		t.Errorf("a fleet that reports no results: %v", err)
	}
}

func TestWithStrategy(t *testing.T) {
	p := policyOf("v1", "round_robin", "a")
	p.Strategies = p.Strategies[:1]
	p.Routes["embed"] = coordinator.Route{Strategy: "capability_match", Required: []string{"gpu"}}
	changed, err := WithStrategy(p, "load_balanced")
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := changed.Find("load_balanced"); !ok || changed.Strategy != "load_balanced" ||
		changed.Routes["embed"].Strategy != "" || len(changed.Routes["embed"].Required) != 1 {
		t.Errorf("changed: %+v", changed)
	}
	if p.Strategy != "round_robin" || len(p.Strategies) != 1 || p.Routes["embed"].Strategy != "capability_match" {
		t.Errorf("the policy itself has changed: %+v", p)
	}
	if _, err := WithStrategy(p, "market"); err == nil ||
		!strings.Contains(err.Error(), "does not say what agents would have bid") {
		t.Errorf("market: %v, want a refusal: no agent bids in a replay", err)
	}
}

func TestOutput(t *testing.T) {
	w, policies := sinkhole(t, "round_robin")
	c := compared(t, w, policies.find, policies.under("load_balanced"))
	c.Types[0].Type = "embed\x1b[2J"
	var table, text, lines bytes.Buffer
	if err := c.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"before: round_robin (configuration v1)", "after:  load_balanced (configuration v1)",
		"recorded", "WAIT P50 S", "sink", "What is modelled: ", "as recorded 100 % → ",
	} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table has no %q:\n%s", want, table.String())
		}
	}
	if strings.Contains(table.String(), "\x1b") {
		t.Error("the table holds a control character of a task type")
	}
	if err := c.WriteJSON(&text); err != nil {
		t.Fatal(err)
	}
	var again Comparison
	if err := json.Unmarshal(text.Bytes(), &again); err != nil || again.All.After.Failed != c.All.After.Failed {
		t.Errorf("JSON: %v, %+v", err, again.All)
	}
	if err := c.WriteCSV(&lines, true); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&lines).ReadAll()
	if err != nil || len(rows) < 30 || len(rows[1]) != 5 {
		t.Errorf("CSV: %d rows, %v", len(rows), err)
	}
}

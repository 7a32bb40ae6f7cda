package learning

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
)

// name and number give agents ids whose order is not that of their numbers.
func name(i int) coordinator.AgentID { return coordinator.AgentID(fmt.Sprintf("agent-%d", 9-i)) }

func number(id coordinator.AgentID) (int, bool) {
	var i int
	_, err := fmt.Sscanf(string(id), "agent-%d", &i)
	return 9 - i, err == nil
}

// busy is a Learner that has learnt of two of three agents.
func busy() *Learner {
	l := New(Settings{MaxTypes: 2}, 3)
	history(l, start, 0, "a", "++-+t")
	history(l, start, 2, "b", "+")
	history(l, start, 2, "beyond the bound", "--")
	l.Observe(start.Add(time.Hour), 2, l.Type("a"), Outcome{Duration: 3 * time.Second, CostUSD: 0.5})
	return l
}

// TestStateSurvives: what was exported is read the same by another Learner, under
// other numbers, and exported again as it was.
func TestStateSurvives(t *testing.T) {
	from := busy()
	state := from.Export(name)
	if again := from.Export(name); !reflect.DeepEqual(state, again) {
		t.Errorf("two exports differ:\n%+v\n%+v", state, again)
	}
	to := New(Settings{MaxTypes: 2}, 3)
	history(to, start, 1, "a", "----") // to be replaced
	history(to, start, 1, "", "----")
	mirrored := func(id coordinator.AgentID) (int, bool) {
		i, ok := number(id)
		return 2 - i, ok
	}
	if err := to.Import(state, mirrored); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		for _, task := range []string{"a", "b", "", "new"} {
			want, got := from.Standing(i, from.Type(task)), to.Standing(2-i, to.Type(task))
			if !near(want.Success, got.Success) || !near(want.Duration, got.Duration) {
				t.Errorf("agent %d, %q: %+v became %+v", i, task, want, got)
			}
		}
		want, _ := from.Cost(i)
		if got, _ := to.Cost(2 - i); !near(want, got) {
			t.Errorf("agent %d: cost %v became %v", i, want, got)
		}
	}
	back := to.Export(func(i int) coordinator.AgentID { return name(2 - i) })
	if !reflect.DeepEqual(state, back) {
		t.Errorf("exported again:\n%+v\nwas\n%+v", back, state)
	}
}

// TestExport: sorted by id and name, without those of which nothing is known.
func TestExport(t *testing.T) {
	s := busy().Export(name)
	var got []string
	for _, r := range s[2:] {
		if r.Agent == "" {
			got = append(got, fmt.Sprintf("type %q", r.Type))
		} else {
			got = append(got, string(r.Agent))
		}
	}
	want := `agent-7 agent-9 type "" agent-7 type "a" agent-7 agent-9 type "b" agent-7`
	if text := strings.Join(got, " "); text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

func TestImportLeavesOutStrangers(t *testing.T) {
	l := New(Settings{MaxTypes: 1}, 1)
	err := l.Import(busy().Export(name), func(id coordinator.AgentID) (int, bool) { return 5, id == "agent-9" })
	if err != nil {
		t.Fatal(err)
	}
	s := l.Export(name)
	if len(s) != 4 || s[1].Sums[1] == 0 {
		t.Errorf("%+v, want the time, all that is known, and two types, without agents", s)
	}
	// One type has a place. The shared one has "b" added, and had two outcomes, one
	// with another after it (half-life 200 for each of 3 agents); all an hour old.
	want := (1 + math.Exp2(-1./600) + 1) * math.Exp2(-1./24)
	if s := s[2]; s.Type != "" || !near(s.Sums[1], want) {
		t.Errorf("%+v, want %v outcomes in the shared type", s, want)
	}
}

// TestImportRefuses: an impossible state is refused whole, and says where.
func TestImportRefuses(t *testing.T) {
	tests := []struct {
		name  string
		row   int
		spoil func(sums *[6]float64)
		want  string
	}{
		{"negative", 1, func(s *[6]float64) { s[2] = -1 }, "fleet: a sum is negative"},
		{"not a number", 2, func(s *[6]float64) { s[1] = math.NaN() },
			`agent "agent-7": a sum is negative or not a number`},
		{"infinite", 6, func(s *[6]float64) { s[3] = math.Inf(1) }, `task type "a": a sum`},
		{"more successes than outcomes", 7, func(s *[6]float64) { s[0], s[1] = 2, 1 },
			`task type "a", agent "agent-7": 2 successes in 1 outcomes`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := busy()
			before, spoilt := l.Export(name), l.Export(name)
			tt.spoil(&spoilt[tt.row].Sums)
			if err := l.Import(spoilt, number); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
			if !reflect.DeepEqual(l.Export(name), before) {
				t.Error("the refused state has changed what was known")
			}
		})
	}
}

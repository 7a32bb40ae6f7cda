package coordinator

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestDecisionText(t *testing.T) {
	refused := func(counts map[Ineligibility]int) (r [NumIneligibilities]int) {
		for why, n := range counts {
			r[why] = n
		}
		return r
	}
	tests := []struct {
		name string
		d    Decision
		want string
	}{
		{"chosen", Decision{Agent: "a1", Strategy: "least_loaded", Eligible: 3, Fleet: 12},
			"a1 by least_loaded, best of 3 eligible among 12 agents"},
		{"preferred", Decision{Agent: "a1", Strategy: "least_loaded", Eligible: 3, Fleet: 12, Preferred: true},
			"a1 by least_loaded, best of 3 eligible among 12 agents (preferred)"},
		{"won by a bid", Decision{Agent: "a1", Strategy: "market", Eligible: 2, Fleet: 12, Auction: AuctionAwarded},
			"a1 by market, best of 2 bidders among 12 agents"},
		{"no agent bid", Decision{Agent: "a1", Strategy: "market", Eligible: 3, Fleet: 12, Auction: AuctionNoBids},
			"a1 by market, best of 3 eligible among 12 agents; no agent bid"},
		{"no agent bid: the first", Decision{Agent: "a1", Strategy: "market", Eligible: 3, Fleet: 12, Auction: AuctionNoBids,
			First: true},
			"a1 by market, first of 3 eligible among 12 agents; no agent bid"},
		{"no time for bids", Decision{Agent: "a1", Strategy: "market", Eligible: 3, Fleet: 12, Auction: AuctionNoTime},
			"a1 by market, best of 3 eligible among 12 agents; there was no time for bids"},
		{"would be offered", Decision{Agent: "a1", Strategy: "market", Eligible: 3, Fleet: 12, Offers: 2,
			Window: 500 * time.Millisecond},
			"offered first (to 2), for at most 500ms; if no agent bids: a1 by market, best of 3 eligible among 12 agents"},
		{"would wait for quota", Decision{Agent: "a1", Strategy: "least_loaded", Eligible: 3, Fleet: 12,
			Lacks: &QuotaLack{Text: "it is used up; back at noon"}},
			"would go to a1 once its quota allows: it is used up; back at noon (a1 by least_loaded, best of 3 eligible " +
				"among 12 agents)"},
		{"would be offered when there is quota", Decision{Agent: "a1", Strategy: "market", Eligible: 3, Fleet: 12, Offers: 2,
			Window: 500 * time.Millisecond, Lacks: &QuotaLack{Text: "it is used up"}},
			"would be offered once its quota allows: it is used up (offered first (to 2), for at most 500ms; if no agent " +
				"bids: a1 by market, best of 3 eligible among 12 agents)"},
		{"waits for quota, and no agent is free", Decision{Fleet: 1, Refused: refused(map[Ineligibility]int{Full: 1}),
			Lacks: &QuotaLack{Text: "it is used up"}},
			"0 of 1 agents eligible: 1 full; it waits for quota, too: it is used up"},
		{"no fleet", Decision{}, "no agents are configured"},
		{"counts in the order of the criteria", // 7 + 5 = 12
			Decision{
				Fleet: 12, Refused: refused(map[Ineligibility]int{Full: 5, LacksCapability: 7}),
				Missing: []MissingCapability{{"gpu", 7}}, Nearest: &Refusal{Agent: "agent-7", Why: Full},
			},
			"0 of 12 agents eligible: 7 lack `gpu`, 5 full; nearest: agent-7 (full)"},
		{"at most three capabilities are named",
			Decision{Fleet: 2, Refused: refused(map[Ineligibility]int{LacksCapability: 2}),
				Missing: []MissingCapability{{"a", 2}, {"b", 2}, {"c", 1}, {"d", 1}}},
			"0 of 2 agents eligible: 2 lack `a` or `b` or `c` or …"},
		{"one code for both orders of an operator", // 3 of 3
			Decision{Fleet: 3, Refused: refused(map[Ineligibility]int{Cordoned: 3}),
				Nearest: &Refusal{Agent: "agent-7", Why: Cordoned}},
			"0 of 3 agents eligible: 3 cordoned or draining; nearest: agent-7 (cordoned or draining)"},
		{"agents that claim", // 1 + 2 = 3, one of these asks for work right now
			Decision{Fleet: 3, Refused: refused(map[Ineligibility]int{Full: 1, Pulling: 2}), Claiming: 1},
			"0 of 3 agents eligible: 1 full, 2 claiming their tasks themselves (1 wait for one now)"},
		{"capability not named", Decision{Fleet: 2, Refused: refused(map[Ineligibility]int{LacksCapability: 2})},
			"0 of 2 agents eligible: 2 lack a required capability"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.d.Text(); got != tt.want {
				t.Errorf("\n got  %s\n want %s", got, tt.want)
			}
		})
	}
}

// TestReasonTable holds the codes against the table of docs/ARCHITECTURE.md.
func TestReasonTable(t *testing.T) {
	want := map[string]bool{ // retry_possible
		"invalid_message": false, "unknown_task_type": false, "no_eligible_agents": false, "no_agents_online": true,
		"all_agents_at_capacity": true, "quota_exhausted": true, "deadline_exceeded": true, "task_timeout": true,
		"retries_exhausted": true, "poisoned": false, "agent_queue_missing": true, "backlog_full": true,
		"duplicate_task": false, "cancelled": false, "not_claimed": true, "exceeds_quota": false,
	}
	all := Reasons()
	if len(all) != len(want) {
		t.Errorf("%d reasons, the table has %d", len(all), len(want))
	}
	for _, r := range all {
		retry, known := want[r.String()]
		if !known || retry != r.RetryPossible() || r.SuggestedAction() == "" {
			t.Errorf("%s: in the table %v, retry_possible %v, action %q", r, known, r.RetryPossible(), r.SuggestedAction())
		}
	}
	if ReasonNone.String() != "" || ReasonNone.RetryPossible() {
		t.Error("no refusal must look like none")
	}
}

// TestWords: every member of a closed set has a word of its own.
func TestWords(t *testing.T) {
	tests := map[string][]string{
		"ineligibility": nil,
		"agent status":  {StatusUnknown.String(), StatusReady.String(), StatusBusy.String(), StatusOffline.String()},
		"agent state":   {AgentNeverSeen.String(), AgentOnline.String(), AgentOffline.String(), AgentStale.String()},
		"priority":      {PriorityLow.String(), PriorityNormal.String(), PriorityHigh.String(), PriorityCritical.String()},
		"return cause":  {ReturnRejected.String(), ReturnExpired.String(), ReturnDeliveryLimit.String()},
		"publish outcome": {PublishConfirmed.String(), PublishUnroutable.String(), PublishRejected.String(),
			PublishUnknown.String(), PublishNotSent.String()},
		"status refusal":   {StatusUnknownAgent.String(), StatusOutOfOrder.String()},
		"reasons, refused": nil,
	}
	for why := range NumIneligibilities {
		tests["ineligibility"] = append(tests["ineligibility"], Ineligibility(why).String())
		if i := Ineligibility(why); i != Eligible && (i.Phrase() == "" || i.Meaning() == "" || i.Until() == "" ||
			i.Reason() == ReasonNone) {
			t.Errorf("%s: phrase %q, meaning %q, until %q, reason %q", i, i.Phrase(), i.Meaning(), i.Until(), i.Reason())
		}
	}
	for _, r := range Reasons() {
		tests["reasons, refused"] = append(tests["reasons, refused"], r.String())
	}
	for set, words := range tests {
		for i, w := range words {
			if w == "" || strings.ToLower(w) != w || slices.Contains(words[:i], w) {
				t.Errorf("%s: word %d is %q", set, i, w)
			}
		}
	}
}

func TestDispatchID(t *testing.T) {
	at := time.Date(2026, 11, 21, 9, 47, 33, 135749000, time.UTC)
	task := &Task{ID: "mem-0001", AcceptedAt: at}
	if got := DispatchID(task, 2); got != "mem-0001.mwq85dhr.2" {
		t.Errorf("got %q", got)
	}
	if got := DispatchID(&Task{ID: "t.1"}, 2); got != "t.1.2" {
		t.Errorf("got %q", got)
	}
}

// TestDispatchIDIsOne: no two tasks, lives of a task or attempts share a dispatch id, and each
// can be read again, although a task id may end like one.
func TestDispatchIDIsOne(t *testing.T) {
	genTask := rapid.Custom(func(t *rapid.T) *Task {
		id := rapid.StringMatching(`[a-z0-9]([a-z0-9.]|\.mwq85dhr\.1){0,3}`).Draw(t, "id")
		return &Task{ID: TaskID(id), AcceptedAt: time.UnixMilli(rapid.Int64Range(1_700_000_000_000, 1_700_000_000_003).
			Draw(t, "accepted"))}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := genTask.Draw(t, "a"), genTask.Draw(t, "b")
		m, n := rapid.IntRange(1, 12).Draw(t, "m"), rapid.IntRange(1, 12).Draw(t, "n")
		same := a.ID == b.ID && a.AcceptedAt.Equal(b.AcceptedAt) && m == n
		if id := DispatchID(a, m); (id == DispatchID(b, n)) != same {
			t.Errorf("%s is of %v and of %v", id, a, b)
		} else if life, attempt, ok := ParseDispatchID(a.ID, id); !ok || life != a.Life() || attempt != m {
			t.Errorf("%s is read as life %d, attempt %d, %v", id, life, attempt, ok)
		}
	})
}

// TestMergeSorted: the union, sorted, without duplicates, of any two such lists.
func TestMergeSorted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOf(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}))
		a, b := SortedUnique(list.Draw(t, "a")), SortedUnique(list.Draw(t, "b"))
		if !slices.IsSorted(a) || len(slices.Compact(slices.Clone(a))) != len(a) {
			t.Fatalf("SortedUnique gave %v", a)
		}
		wasA, wasB := slices.Clone(a), slices.Clone(b)
		got := MergeSorted(a, b)
		want := slices.Concat(a, b)
		slices.Sort(want)
		if want = slices.Compact(want); !slices.Equal(got, want) {
			t.Fatalf("MergeSorted(%v, %v) = %v, want %v", a, b, got, want)
		}
		if !slices.Equal(a, wasA) || !slices.Equal(b, wasB) {
			t.Fatal("an argument was changed")
		}
	})
}

func TestAge(t *testing.T) {
	at := time.Unix(1000, 0)
	task := &Task{AcceptedAt: at}
	if got := task.Age(at.Add(3 * time.Second)); got != 3*time.Second {
		t.Errorf("age %v, want 3s", got)
	}
	if got := task.Age(at.Add(-time.Second)); got != 0 {
		t.Errorf("age %v before it was accepted, want 0", got)
	}
}

func TestRoughly(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "1 s", 42 * time.Second: "42 s", 5*time.Minute + 4*time.Second: "300 s", 17 * time.Minute: "17 min",
		179 * time.Minute: "179 min",
		3 * time.Hour:     "3 h", 71 * time.Hour: "71 h", 140832 * time.Minute: "98 days", // 140832 / 1440 = 97.8
	} {
		if got := Roughly(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

package journal

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
)

var update = flag.Bool("update", false, "write testdata/format-2.txt anew: only before that version was ever released")

// goldenAt is the time of the golden messages.
var goldenAt = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func goldenTask() *coordinator.Task {
	return &coordinator.Task{
		ID: "task-1", Type: "summarise", Priority: coordinator.PriorityHigh,
		Carried: coordinator.Carried{CorrelationID: "trace-1"}, Timeout: 5 * time.Minute,
		Deadline: goldenAt.Add(time.Hour), Required: []string{"gpu", "llm"}, Preferred: []coordinator.AgentID{"agent-1"},
		Excluded: []coordinator.AgentID{"agent-9"}, Strategy: "round_robin", Group: "research",
		Labels: map[string]string{"zone": "b", "tier": "1"},
		EstimatedUsage: &coordinator.Usage{Requests: 1, InputTokens: 1200, OutputTokens: 300, CostUSD: 0.25, Provider: "p",
			Model: "m"},
		ReplyTo: "replies", TraceParent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", TraceState: "v=1",
		AcceptedAt: goldenAt.Add(-time.Second), ContentHash: 0x1122334455667788,
		Description: "Summarise the report in five lines.",
	}
}

// goldenRecords have nearly every field set.
func goldenRecords() []coordinator.Record {
	key := coordinator.TaskKey{0x0102030405060708, 0x1112131415161718}
	a, b := coordinator.AgentID("agent-1"), coordinator.AgentID("agent-2")
	return []coordinator.Record{
		&coordinator.Assigned{Task: goldenTask(), Agent: b, Attempt: 3, Strategy: "round_robin", Eligible: 2, Fleet: 4,
			At: goldenAt.Add(-time.Millisecond), Timeout: 5 * time.Minute, Tried: []coordinator.AgentID{a, b},
			Failed:    []coordinator.AgentID{a},
			Untouched: []coordinator.AgentID{b}, Suspected: []coordinator.AgentID{b}, Blamed: []coordinator.AgentID{a},
			Taught:     []coordinator.AgentID{a, b},
			Generation: 300, Probe: true, Batch: "batch-1", Service: coordinator.Service{Provider: "openai", Model: "m-1"},
			MaybeDuplicate: true, OwnMessage: true},
		&coordinator.Settled{Key: key, Attempt: 3, At: goldenAt, Nowhere: true},
		&coordinator.LeaseChanged{Key: key, Attempt: 3, Withdrawn: true, Reason: "no longer wanted", Returning: true,
			Begun: true},
		&coordinator.Remembered{Key: key, ID: "task-1", Content: 7, Fate: coordinator.FateGaveUp,
			Seen:  goldenAt.Add(-time.Hour),
			Agent: a, Attempt: 3, Flags: 5, Reason: "no longer wanted", Why: coordinator.ReasonTaskTimeout},
		&coordinator.Learnt{Agent: a, Type: "summarise", Attribution: coordinator.AttributedTimeout, At: goldenAt,
			Duration: 1500 * time.Millisecond, CostUSD: 0.1},
		&coordinator.Forgiven{Agent: a, Type: "summarise", At: goldenAt},
		&coordinator.LearntBefore{First: true, AsOf: goldenAt, Agent: a, Typed: true, Type: "summarise",
			Sums: [6]float64{1, 2.5, -3, 0, 1e100, 0.1}},
		&coordinator.BreakerChanged{Agent: a, Capability: "gpu", Gone: true, State: 2, Cause: 1,
			Faults: []coordinator.TaskID{"t1", "t2"}, Opened: 4,
			ClosedAt: goldenAt.Add(-time.Minute), Until: goldenAt.Add(time.Minute), Since: 10, Before: 9, Probe: "t3",
			Probing: true, Generation: 301},
		&coordinator.Ordered{Agent: b, Order: coordinator.OrderDrain},
		&coordinator.Tracked{Agent: b},
		&coordinator.Consumed{Agent: b, Ever: true, Told: goldenAt.Add(-time.Second)},
		&coordinator.Doubted{Key: key, Messages: 2},
		&coordinator.Joined{Agents: []coordinator.AgentSpec{{ID: b, Queue: "agent.agent-2", Capabilities: []string{"gpu"},
			MaxConcurrent: 4, Rank: 2,
			HealthCheckInterval: 30 * time.Second, Timeout: time.Minute, AcceptTimeout: 20 * time.Second, SuccessRate: 0.9,
			SuccessStated: true,
			Cost:          2, Labels: map[string]string{"zone": "b"}}}, Left: []coordinator.AgentID{a}},
		&coordinator.AgentBefore{Agent: a, Assigned: 1000, LastAssigned: 1_000_000, Items: 12.5, BusySeconds: 99,
			Samples: 40},
		&coordinator.Owed{Task: goldenTask(), Failure: coordinator.Failure{Reason: coordinator.ReasonPoisoned,
			Text: "failed on 3 agents", Attempts: 3, FailedAt: goldenAt}},
		&coordinator.Paid{Key: key},
		&coordinator.Calibrated{Agent: a, Ratio: 1.5, Brier: -0.125, Bias: 0.25, Timed: 20, Judged: 30},
		&coordinator.QuotaReserved{Key: key, Group: "alpha", Agent: a, Provider: "openai", Model: "m-1",
			Amounts: coordinator.Amounts{1, 2000, 300, 2300, 45_000, 1},
			Expect:  99, NoBorrowing: true, At: goldenAt, Until: goldenAt.Add(time.Hour), Before: true, State: 1,
			Loans:  []coordinator.QuotaLoan{{From: "pool/beta", To: "pool/alpha", Dimension: coordinator.DimCost, Amount: 5000}},
			Served: []string{"pool"},
			Level:  coordinator.PriorityHigh, Waiting: 0b0111, Call: true, Operation: "chat", Untold: true,
			Known: coordinator.ProviderKept},
		&coordinator.QuotaExtended{Key: key, More: coordinator.Amounts{0, 0, 256, 256}, At: goldenAt,
			Until: goldenAt.Add(time.Minute)},
		&coordinator.QuotaEnded{Key: key, How: coordinator.QuotaExpired,
			Used: coordinator.Amounts{1, 1900, 310, 2210, 44_000}, At: goldenAt, Keep: true, Type: "summarise", Heard: true,
			Failed: true, Took: 1500 * time.Millisecond,
			Late: &coordinator.QuotaOwner{Group: "team-a", Agent: "agent-7", Provider: "openai", Model: "gpt-4o", Call: true,
				At: goldenAt.Add(-time.Hour), Known: coordinator.NoNameKept}, Word: coordinator.WordUnasked,
			Told: coordinator.Amounts{1, 1e15, 310, 1e15 + 310}},
		&coordinator.QuotaBefore{Node: "pool/alpha", Dimension: coordinator.DimTotalTokens, Rate: true,
			Start: 1_900_000_000_000_000_000, Values: []int64{1, -2, 3_000_000}},
		&coordinator.EstimateBefore{First: true, Tenant: "alpha", Model: "m-1", Level: 2, Input: true, Bucket: 11,
			Sum: 123_456, Counts: []uint32{3, 10, 4, 70_000}},
		&coordinator.ShareBefore{First: true, Group: "alpha", Parent: "org", Own: true, Values: []int64{7, 8, -9}},
		&coordinator.LaneKnown{Lane: "research", Known: true},
		&coordinator.PoolHeard{Node: "openai/m-1", At: goldenAt, BlockedUntil: goldenAt.Add(time.Second), PerMille: 700,
			CutAt: goldenAt, Refusals: 2, By: "agent-7", RestUntil: goldenAt.Add(2 * time.Second),
			TakesAfter: goldenAt.Add(time.Minute),
			Taken:      coordinator.Amounts{0, 5000}, Before: true, Calls: 16, Success: 937_500, Latency: 800 * time.Millisecond,
			Teller: "agent-7", BeganSuccess: 1_000_000, BeganLatency: time.Second},
		&coordinator.QuotaTold{Node: "pool/alpha", Dimension: coordinator.DimCost, Percent: 90, At: goldenAt},
		&coordinator.QuotaControlled{First: true, Set: []coordinator.QuotaControl{{
			ID: "boost-0a1b2c3d", Kind: coordinator.ControlBoost, Target: "pool/alpha", Key: "total_tokens.amount",
			Value: "+50%",
			Until: goldenAt.Add(2 * time.Hour), At: goldenAt, By: "ann", Reason: "the report is due", Rule: "slow",
		}}, Removed: []string{"set-11223344"}, Day: goldenAt.Add(-12 * time.Hour), Uses: []coordinator.QuotaUse{
			{Node: "pool/alpha", Used: coordinator.Amounts{3, 1900, 310, 2210, 44_000}, Answers: 3,
				Took: 4500 * time.Millisecond, Run: 2},
		}},
		&coordinator.EndedBefore{Task: goldenTask()},
		&coordinator.TaskBefore{Task: goldenTask(), State: "failed", Attempts: []coordinator.AttemptBefore{
			{Agent: a, Number: 1, At: goldenAt.Add(-time.Minute), Outcome: "expired"},
			{Agent: b, Number: 2, At: goldenAt, Outcome: "timed_out", Detail: "succeeded, 4 s too late"},
		}, Strategy: "round_robin", Eligible: 2, Fleet: 4, DecidedAt: goldenAt, Waited: 1500 * time.Millisecond,
			WaitsFrom:   goldenAt,
			CompletedAt: goldenAt, Work: time.Second, Failure: coordinator.Failure{Reason: coordinator.ReasonTaskTimeout,
				Text: "overdue", Attempts: 2, FailedAt: goldenAt, Agent: b}},
		&coordinator.BatchSealed{Batch: "task-1.1", Tasks: []coordinator.TaskKey{key, {key[1], key[0]}}},
		&coordinator.Readdressed{Key: key, ReplyTo: "shop.answers"},
		&coordinator.Renewed{Key: key, Attempt: 2, At: goldenAt},
	}
}

// goldenMessages are one of each kind, and one for each kind of record.
func goldenMessages() (names []string, messages [][]byte) {
	h := Header{Epoch: 7, First: 1001, At: goldenAt, ResultOffset: 5000, SnapshotOffset: 200}
	leader := Epoch{Nonce: "nonce-1", Instance: "host-1", Address: "10.0.0.1:8551", Version: "1.4.0"}
	add := func(name string, body []byte) { names, messages = append(names, name), append(messages, body) }
	add("epoch", AppendEpoch(nil, h, leader))
	add("snapshot", AppendSnapshot(nil, h, Chunk{Snapshot: "s1", Number: 2, Last: true, Leader: leader,
		Since: goldenAt.Add(-time.Hour)}, goldenRecords()[8:10]))
	add("piece", slices.Collect(pieces(AppendEpoch(nil, h, leader), 40))[1])
	add("empty", AppendBatch(nil, Header{Epoch: 7, First: 1001, At: goldenAt, ResultOffset: -1, SnapshotOffset: -1}, nil))
	leader.Agents, leader.Lost = "aaaa", &Loss{At: goldenAt, Evidence: []string{"marks"}, Budgets: "taken back",
		Restored: true}
	add("epoch_lost", AppendEpoch(nil, h, leader))
	for _, r := range goldenRecords() {
		add(strings.TrimPrefix(fmt.Sprintf("%T", r), "*coordinator."), AppendBatch(nil, h, []coordinator.Record{r}))
	}
	return names, messages
}

// The format does not change by accident: what was written once is written the same
// way today, and what was written then is understood.
func TestFormatIsWhatItWas(t *testing.T) {
	const file = "testdata/format-2.txt"
	names, messages := goldenMessages()
	var b strings.Builder
	for i, name := range names {
		fmt.Fprintf(&b, "%s %s\n", name, hex.EncodeToString(messages[i]))
	}
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(golden)), "\n")
	if len(lines) != len(names) {
		t.Fatalf("%s has %d messages, want %d", file, len(lines), len(names))
	}
	records := goldenRecords()
	for i, line := range lines {
		name, text, _ := strings.Cut(line, " ")
		if name != names[i] || text != hex.EncodeToString(messages[i]) {
			t.Errorf(
				"%s is written otherwise than in %s: an older reader would misunderstand it. If that is meant, raise "+
					"FormatVersion", names[i], file)
		}
		body, err := hex.DecodeString(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		m, err := Decode(body)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if first := i - (len(names) - len(records)); first >= 0 && !reflect.DeepEqual(m.Records, records[first:first+1]) {
			t.Errorf("%s is read as %+v, was written as %+v", name, m.Records[0], records[first])
		}
	}
}

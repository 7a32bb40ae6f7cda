package sim

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"taskbus/config"
	"taskbus/config/quotas"
	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/journal"
	"taskbus/tests/support/clitest"
)

// recordedQuotas have a cheap model with room for one call in an hour, and a dear one with room for all.
const recordedQuotas = `
groups: [{id: alpha}]
agents: [{id: a1, group_id: alpha}, {id: a2, group_id: alpha}]
providers:
  - {provider: cheap, limits: {requests: {rate: 1, per: hour, burst: 1}}}
  - {provider: dear, limits: {requests: {rate: 1000, per: hour}}}
prices: [{provider: cheap, per_request: 0.001}, {provider: dear, per_request: 0.002}]
`

// exportedCalls writes the export of a term in which two agents have asked under the same id r-1, which may
// go to either model, the first of them a minute before the second.
func exportedCalls(t *testing.T) string {
	t.Helper()
	c, err := config.Parse([]byte(recordedFleet), "recorded.yaml")
	if err != nil {
		t.Fatal(err)
	}
	q, err := quotas.Parse([]byte(recordedQuotas), "quotas.yaml")
	if err != nil {
		t.Fatal(err)
	}
	first := coordinator.PolicyChanged{Policy: c.WithQuotas(q).Policy()}
	h := journal.Header{Epoch: 3, First: 1, At: clitest.Noon, ResultOffset: -1}
	messages := [][]byte{
		journal.AppendEpoch(nil, h, journal.Epoch{Nonce: "n"}),
		journal.AppendSnapshot(nil, h, journal.Chunk{Snapshot: "s-1", Last: true}, nil),
	}
	e, recorder := engine.New(), journal.NewRecorder("s-1", 1<<20)
	recorder.Add(clitest.Noon, first)
	e.Follow()
	e.Apply(clitest.Noon, first, nil)
	e.Lead(clitest.Noon)
	e.Record(true)
	apply := func(at time.Time, ev coordinator.Event) {
		recorder.Add(at, ev)
		e.Apply(at, ev, nil)
		if records := e.Records(nil); len(records) > 0 {
			h.At = at
			messages = append(messages, journal.AppendBatch(nil, h, records))
			h.First += uint64(len(records))
		}
	}
	apply(clitest.Noon, coordinator.SessionOpened{})
	for i, agent := range []coordinator.AgentID{"a1", "a2"} {
		apply(clitest.Noon.Add(time.Duration(i+1)*time.Minute),
			coordinator.CallAsked{Token: uint64(i + 1), Calls: []coordinator.Call{{
				Op: coordinator.CallReserve, Key: coordinator.CallKey(agent, "r-1"), Keep: true, Agent: agent,
				Priority: coordinator.PriorityNormal,
				Usage:    coordinator.Usage{InputTokens: 100, OutputTokens: 20}, Meant: coordinator.UsageExact,
				Routes: []coordinator.Service{{Provider: "dear"}, {Provider: "cheap"}},
			}}})
	}
	inputs, _ := recorder.Take(nil, h, true)
	messages = append(messages, inputs)
	path := filepath.Join(t.TempDir(), "calls.tbj")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = journal.WriteExport(file, func(yield func(journal.Exported, error) bool) {
		for i, m := range messages {
			if !yield(journal.Exported{Offset: int64(i), Body: m}, nil) {
				return
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// What was recorded of a call says afterwards why it went where it did: a1's to the cheaper model, a2's to
// the other one, because the cheaper one had no room any more.
func TestReplayShowsACall(t *testing.T) {
	path := exportedCalls(t)
	if out, _ := replayed(t, 0, path); !strings.Contains(out, "identical") {
		t.Fatalf("the recording is not decided alike:\n%s", out)
	}
	type route struct {
		Provider string
		Chosen   bool
		Score    float64
		Terms    struct{ Price float64 }
		Refusal  string
	}
	var found []struct {
		Operation, State, Provider string
		Agent                      string `json:"agent_id"`
		Amounts                    map[string]int64
		Routes                     []route
	}
	out, _ := replayed(t, 0, path, "--call", "r-1", "-o", "json")
	if err := json.Unmarshal([]byte(out), &found); err != nil || len(found) != 2 {
		t.Fatalf("%v: %s", err, out)
	}
	a1, a2 := found[0], found[1]
	if a1.Agent != "a1" || a1.State != "granted" || a1.Operation != "reserve" || a1.Provider != "cheap" ||
		a1.Amounts["total_tokens"] != 120 {
		t.Errorf("%+v", a1)
	}
	// Half the price is all of the term for the cheapest, and half of it for the other one.
	if dear, cheap := a1.Routes[0], a1.Routes[1]; !cheap.Chosen || dear.Chosen || cheap.Terms.Price != 1 ||
		dear.Terms.Price != 0.5 || cheap.Score <= dear.Score {
		t.Errorf("a1's routes %+v", a1.Routes)
	}
	if dear, cheap := a2.Routes[0], a2.Routes[1]; a2.Provider != "dear" || !dear.Chosen || cheap.Refusal == "" {
		t.Errorf("a2's routes %+v", a2.Routes)
	}
	out, _ = replayed(t, 0, path, "--call", "r-1", "--agent", "a2")
	for _, want := range []string{clitest.Noon.Add(2*time.Minute).UTC().Format("2006-01-02 15:04:05.000Z") +
		": reserve of a2 is granted at dear: 120 tokens", "SCORE", "chosen"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if out, _ := replayed(t, 1, path, "--call", "r-1", "--agent", "a3"); !strings.Contains(out,
		"no call of the reservation r-1 was recorded") {
		t.Error(out)
	}
	replayed(t, 2, path, "--agent", "a1")
	replayed(t, 2, path, "--call", "r-1", "--strategy", "round_robin")
}

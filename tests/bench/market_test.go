package main

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"

	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/messages"
	"taskbus/schemas"
)

func TestJudgeMarket(t *testing.T) {
	const windowed, early, ample, scarce, granted, beside, latency = 0, 1, 2, 3, 4, 5, 6
	atOnce := func(slots int, awarded ...int) (runs []atOnceRun) {
		for i, n := range awarded {
			runs = append(runs, atOnceRun{Slots: slots, Auctions: 200, Awarded: n, Bids: 200 * (40 + i), Seconds: 0.5 + float64(i), CPUMillis: 2})
		}
		return runs
	}
	pull := func(mode string, rates ...float64) (runs []pullRun) {
		for _, rate := range rates {
			runs = append(runs, pullRun{Mode: mode, TasksPerSec: rate, CPUMicros: 40})
		}
		return runs
	}
	pushes := func(alone, with float64) besideResult {
		return besideResult{
			Throughput: []throughputRun{{Subject: besideChoosing, TasksPerSec: with}, {Subject: besideNothing, TasksPerSec: alone}},
			Latency:    []latencyRun{{Subject: besideChoosing, P50Millis: 3, P99Millis: 9}, {Subject: besideNothing, P50Millis: 2, P99Millis: 8}},
		}
	}
	window := func(p99 float64) marketResult {
		return marketResult{Window: latencyRun{Tasks: 200, P50Millis: 3, P99Millis: p99}}
	}
	for _, c := range []struct {
		name         string
		results      results
		which        int
		word, result string
		note         string
	}{
		{"just right", results{Market: window(5)}, windowed, passed, "5.00 ms", "p50 3.00 ms"},
		{"too late", results{Market: window(5.01)}, windowed, missed, "5.01 ms", ""},
		{"no windows", results{}, windowed, notMeasured, "", ""},
		{"early", results{Market: marketResult{Early: latencyRun{Tasks: 200, P50Millis: 14, P99Millis: 20}, WithoutBids: 1}}, early, "", "p50 14.00 ms", "p99 20.00 ms"},
		{"all were awarded", results{Market: marketResult{AtOnce: atOnce(amplySlots, 200, 200, 200)}}, ample, passed, "200", "after 1500 ms; 41.0 bids"}, // the middle of 0.5, 1.5, 2.5 s, and of 40, 41, 42
		{"the worst run counts", results{Market: marketResult{AtOnce: atOnce(amplySlots, 200, 199)}}, ample, missed, "199", ""},
		{"each by its slots", results{Market: marketResult{AtOnce: append(atOnce(amplySlots, 1), atOnce(4, 200)...)}}, scarce, passed, "200", ""},
		{"none with few slots", results{Market: marketResult{AtOnce: atOnce(amplySlots, 200)}}, scarce, notMeasured, "", ""},
		{"median of 4,000, 5,000, 9,000", results{Pull: append(pull(modePull, 9000, 4000, 5000), pull(modePush, 7000)...)}, granted, passed, "5000/s", "pushed 7000/s"},
		{"too slow", results{Pull: pull(modePull, 4999)}, granted, missed, "4999/s", ""},
		{"only pushed", results{Pull: pull(modePush, 9000)}, granted, notMeasured, "", ""},
		{"9,000/10,000", results{Beside: pushes(10_000, 9000)}, beside, passed, "0.90", "alone 10000/s"},
		{"8,900/10,000", results{Beside: pushes(10_000, 8900)}, beside, missed, "0.89", ""},
		{"nothing beside", results{}, beside, notMeasured, "", ""},
		{"latency beside", results{Beside: pushes(1, 1)}, latency, "", "3.00 ms", "alone 2.00 ms; p99 9.00 ms, alone 8.00 ms"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := c.results.judgeMarket()[c.which]
			if v.Word != c.word || v.Result != c.result || !strings.Contains(v.Note, c.note) {
				t.Errorf("%s: %s %q (%s), want %s %q (%s)", v.What, v.Word, v.Result, v.Note, c.word, c.result, c.note)
			}
		})
	}
}

// The service must take the fleet, and read it as it is meant.
func TestChoosersFile(t *testing.T) {
	fleet, err := config.Parse(choosersFile(4, ceilingAtOnce, modePull), "agents.yaml")
	if err != nil {
		t.Fatal(err)
	}
	pulling := 0
	for _, a := range fleet.Policy().Agents {
		if a.Pull == coordinator.PullShared {
			pulling++
		}
	}
	if len(fleet.Policy().Agents) != fleetSize || pulling != claimerCount {
		t.Errorf("%d agents, of which %d pull, want %d and %d", len(fleet.Policy().Agents), pulling, fleetSize, claimerCount)
	}
}

func TestBidsForEverythingOffered(t *testing.T) {
	body, rest := messages.AppendTaskAvailable(nil, coordinator.AgentID(agentID(3)), []messages.TaskOffer{
		{TaskID: coordinator.TaskID(taskID(0)), AuctionID: "a.1", TaskType: auctioned, BidWindowMS: 100, Attempt: 1},
		{TaskID: coordinator.TaskID(taskID(48)), AuctionID: "b.1", TaskType: auctioned, BidWindowMS: 100, Attempt: 1},
	})
	if len(rest) > 0 {
		t.Fatalf("%d offers did not fit", len(rest))
	}
	messageType, body, err := bidsOf(agentID(3), 3, body)
	var m struct {
		AgentID string `json:"agent_id"`
		Bids    []struct {
			AuctionID string  `json:"auction_id"`
			Fitness   float64 `json:"fitness"`
		} `json:"bids"`
	}
	if err := errors.Join(err, json.Unmarshal(body, &m)); err != nil || messageType != schemas.TaskBids || m.AgentID != agentID(3) || len(m.Bids) != 2 {
		t.Fatalf("%s %s, %v", messageType, body, err)
	}
	for i, want := range []struct {
		auction string
		fitness float64
	}{
		{"a.1", 0.53}, // 0.5 + ((0+3) mod 50)/100
		{"b.1", 0.51}, // 0.5 + ((48+3) mod 50)/100
	} {
		if got := m.Bids[i]; got.AuctionID != want.auction || got.Fitness != want.fitness {
			t.Errorf("bid %d is %+v; want %+v", i, got, want)
		}
	}
	if _, _, err := bidsOf(agentID(3), 3, []byte("no offer")); err == nil {
		t.Error("what is no offer gives no error")
	}
}

func TestParseMetrics(t *testing.T) {
	got, err := parseMetrics(strings.NewReader("# HELP a_total Of a.\n# TYPE a_total counter\na_total{outcome=\"awarded\"} 200\nb_sum 1.25e-3\n\n"))
	want := map[string]float64{`a_total{outcome="awarded"}`: 200, "b_sum": 0.00125}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	if _, err := parseMetrics(strings.NewReader("a_total many\n")); err == nil {
		t.Error("a value that is no number gives no error")
	}
}

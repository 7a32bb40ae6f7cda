package demo

import (
	"strings"
	"testing"
	"text/tabwriter"

	"taskbus/coordinator"
	"taskbus/coordinator/view"
)

// bid is a bidder as a decision by auction has it.
func bid(agent string, fitness, claimed, active, seconds float64) view.Candidate {
	return view.Candidate{Agent: agent, Terms: []view.Term{
		{Name: "fitness", Value: view.Number(fitness)}, {Name: "claimed", Value: view.Number(claimed)},
		{Name: "active", Value: view.Number(active)}, {Name: "duration_s", Value: view.Number(seconds)},
	}}
}

// What agents influenced is separate from the rest: which won by which bids, for what no bid decided, and
// what was claimed.
func TestSummaryTellsOfBidsAndClaims(t *testing.T) {
	market := func(agent string, candidates ...view.Candidate) view.Task {
		return view.Task{Agent: agent, Strategy: "market", Explanation: &view.Explanation{Candidates: candidates}}
	}
	tests := []struct {
		name  string
		tasks map[coordinator.TaskID]view.Task
		want  string
	}{
		{
			name: "tasks that were given say nothing",
			tasks: map[coordinator.TaskID]view.Task{"a": {Agent: "gpu-1", Strategy: "capability_match",
				Explanation: &view.Explanation{}}},
		},
		{
			name: "an auction: its bids, the winner's first",
			tasks: map[coordinator.TaskID]view.Task{"a:demo-1f": market("web-1", bid("web-1", 0.9, 1, 0, 0.375),
				bid("gen-1", 0.8, 1, 2, 0.25))},
			want: `
AUCTION  WON BY  BIDDER  FITNESS  CLAIMED  IN HAND  SECONDS
a        web-1   web-1   0.90     1.00     0        0.38
                 gen-1   0.80     1.00     2        0.25
`,
		},
		{
			name: "no bid decided: the candidates are those of the strategy behind it",
			tasks: map[coordinator.TaskID]view.Task{
				"a": market("gen-1", view.Candidate{Agent: "gen-1", Terms: []view.Term{{Name: "load", Value: 0}}})},
			want: `
AUCTION  WON BY  BIDDER  FITNESS  CLAIMED  IN HAND  SECONDS
a        gen-1   by the fallback: no bid decided
`,
		},
		{
			name: "claims, by agent",
			tasks: map[coordinator.TaskID]view.Task{"a": {Agent: "p2", Strategy: "pull"},
				"b": {Agent: "p1", Strategy: "pull"}, "c": {Agent: "p2", Strategy: "pull"}},
			want: `
CLAIMED BY  TASKS
p1          1: b
p2          2: a, c
`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var c choices
			for _, id := range []coordinator.TaskID{"a", "a:demo-1f", "b", "c"} {
				if task, there := tt.tasks[id]; there {
					c.add(id, task)
				}
			}
			var out strings.Builder
			tw := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
			c.print(tw)
			if err := tw.Flush(); err != nil || out.String() != tt.want {
				t.Errorf("got %v\n%s\nwant\n%s", err, out.String(), tt.want)
			}
		})
	}
}

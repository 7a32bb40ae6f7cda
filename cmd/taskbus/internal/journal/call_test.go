package journal

import (
	"strings"
	"testing"
	"time"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator"
	"taskbus/coordinator/journal"
	"taskbus/tests/support/clitest"
)

// callBook is a journal in which a1 and a2 have both reserved quota under the id r-1, and a gateway under
// g-1 for no agent in particular. The call of a3 began so long ago that its end alone is there.
func callBook(t *testing.T) [][]byte {
	t.Helper()
	ago := func(d time.Duration) time.Time { return clitest.Noon.Add(-d) }
	reserved := func(agent coordinator.AgentID, id, provider string, tokens int64) *coordinator.QuotaReserved {
		return &coordinator.QuotaReserved{
			Key: coordinator.CallKey(agent, id), Agent: agent, Group: "alpha", Provider: provider, Model: "gpt-4o", Call: true,
			Amounts: coordinator.Amounts{coordinator.DimRequests: 1, coordinator.DimTotalTokens: tokens},
			At:      ago(9 * time.Minute), Until: ago(-6 * time.Minute),
		}
	}
	ended := func(agent coordinator.AgentID, id string, tokens int64) *coordinator.QuotaEnded {
		return &coordinator.QuotaEnded{Key: coordinator.CallKey(agent, id), How: coordinator.QuotaSettled,
			Used: coordinator.Amounts{coordinator.DimRequests: 1, coordinator.DimTotalTokens: tokens}, At: ago(8 * time.Minute)}
	}
	r := journal.NewReader()
	var bodies [][]byte
	publish := func(list ...[]byte) {
		for _, body := range list {
			if _, err := r.Take(int64(len(bodies)), body); err != nil {
				t.Fatal(err)
			}
			bodies = append(bodies, body)
		}
	}
	publish(journal.Claim(r, ago(time.Hour), journal.Epoch{Nonce: "n", Instance: "host-1", Address: "host-1:8551",
		Version: "1.4.0"}))
	w, err := journal.NewWriter(r)
	if err != nil {
		t.Fatal(err)
	}
	publish(w.Batch(ago(9*time.Minute), []coordinator.Record{reserved("a1", "r-1", "openai@main", 300),
		reserved("a2", "r-1", "openai@spare", 77), reserved("", "g-1", "openai@main", 5)})...)
	publish(w.Batch(ago(8*time.Minute), []coordinator.Record{ended("a1", "r-1", 250), ended("", "g-1", 4),
		ended("a3", "old", 66)})...)
	return bodies
}

// A call can be explained afterwards by the id of its reservation: what was set aside, at which provider's
// key and model, and what it has used. Ids of different agents are different calls.
func TestJournalShowsACall(t *testing.T) {
	bodies := callBook(t)
	for _, tc := range []struct {
		args       string
		want, none string // words in the output, divided by |
	}{
		{"journal show r-1",
			"call of alpha at openai@main/gpt-4o: 300 tokens|used: 250 tokens|openai@spare/gpt-4o: 77 tokens|agent           " +
				"       a2", "5 tokens\n|66 tokens"},
		{"journal show r-1 --agent a1", "openai@main/gpt-4o: 300 tokens|used: 250 tokens", "openai@spare"},
		{"journal show r-1 --agent a2", "openai@spare/gpt-4o: 77 tokens", "used:"},
		{"journal show r-1 --agent a3", "nothing about r-1 was journalled", "tokens"},
		{"journal show g-1", "openai@main/gpt-4o: 5 tokens|used: 4 tokens", "300"},
		{"journal show g-1 --agent=", "openai@main/gpt-4o: 5 tokens|used: 4 tokens", "300"},
		{"journal show old", "nothing about old was journalled|--agent", "66"}, // its owner is not known
		{"journal show old --agent a3", "used: 66 tokens", "300"},
		{"journal show r-1 --agent a1 -o json", `"provider": "openai@main"|"task_id": "r-1"`, "spare"},
		{"journal ls --agent a1", "#" + keyText(coordinator.CallKey("a1", "r-1"))[:8] +
			"|quota is set aside for a call of alpha at openai@main|used: 250 tokens", "a2"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			runJournal(t, bodies, tc.args, func(r *clitest.Rig, code int) {
				out := r.Out.String()
				if code != cli.ExitOK {
					t.Fatalf("exit code %d: %s", code, r.Err.String())
				}
				for _, word := range strings.Split(tc.want, "|") {
					if !strings.Contains(out, word) {
						t.Errorf("%q is not in\n%s", word, out)
					}
				}
				for _, word := range strings.Split(tc.none, "|") {
					if strings.Contains(out, word) {
						t.Errorf("%q is in\n%s", word, out)
					}
				}
			})
		})
	}
}

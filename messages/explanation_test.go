package messages

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/schemas"
)

// explained is the explanation in the dispatch of such a decision, as it stands there and as an agent reads it.
func explained(t tester, d *Decoder, decision *coordinator.Decision) (raw, read string) {
	t.Helper()
	dispatch := sampleDispatch()
	dispatch.Decision = decision
	body := AppendExplainedDispatch(nil, dispatch, []byte(`{"n":1}`))
	m, refusal := d.DecodeTaskDispatch(body)
	if refusal != nil {
		t.Fatalf("%s: %s", body, refusal.Text)
	}
	if plain := AppendDispatch(nil, dispatch, []byte(`{"n":1}`)); strings.Contains(string(plain), "explanation") {
		t.Fatalf("it was not to explain itself: %s", plain)
	}
	_, raw, _ = strings.Cut(string(body), `"explanation":"`)
	raw, _, _ = strings.Cut(raw, `","payload":`)
	return raw, m.Explanation
}

func TestExplanationOfADispatch(t *testing.T) {
	scored := coordinator.Decision{
		Strategy: "reward_rate", Scored: true, Agent: "gpu-1", Fleet: 9, Eligible: 2,
		Candidates: []coordinator.Candidate{{Agent: "gpu-1", Key: coordinator.Key{First: -0.9}},
			{Agent: "gpu-2", Key: coordinator.Key{First: -0.85}}},
		Refusals: []coordinator.Refusal{{Agent: "gpu-3", Why: coordinator.Full}},
	}
	scored.Refused[coordinator.Full], scored.Refused[coordinator.LacksCapability] = 1, 6
	preferred := coordinator.Decision{
		Strategy: "least_loaded", Terms: []string{"load"}, Agent: "a1", Preferred: true, Fleet: 400, Eligible: 3,
		WithoutQuota: 2,
		Candidates:   []coordinator.Candidate{{Agent: "a1", Terms: coordinator.TermValues{0.25}}},
		Refusals: []coordinator.Refusal{{Agent: "a2", Why: coordinator.WentStale},
			{Agent: "a3", Why: coordinator.WentStale}},
	}
	preferred.Refused[coordinator.WentStale], preferred.Refused[coordinator.LacksCapability] = 2, 393
	for _, c := range []struct {
		name     string
		decision *coordinator.Decision
		want     string
	}{
		{"with scores, and one of the others by name", &scored,
			"gpu-1 by reward_rate, best of 2 eligible among 9 agents (score 0.9; gpu-2 0.85); out: 1 full (gpu-3), 6 lack a " +
				"required capability"},
		{"preferred, without scores", &preferred,
			"a1 by least_loaded, best of 3 eligible among 400 agents (preferred) (load 0.25); out: 2 silent for too long " +
				"(a2 a3), 393 lack a required capability, 2 without quota of their own"},
		{"by bids", &coordinator.Decision{Strategy: "market", Scored: true, Agent: "a", Auction: coordinator.AuctionAwarded,
			Fleet: 4, Eligible: 2}, "a by market, best of 2 bidders among 4 agents"},
		{"of a journal that says no more", &coordinator.Decision{Strategy: "market", Agent: "a", Fleet: 4, Eligible: 2},
			"a by market, best of 2 eligible among 4 agents"},
		{"not known", nil, ""},
	} {
		if _, got := explained(t, newDecoder(t), c.decision); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, c.want)
		}
	}
}

// TestExplanationIsBounded: whatever names hold, the explanation has at most MaxExplanation bytes in the
// message, is valid and, where it was cut, ends with an ellipsis.
func TestExplanationIsBounded(t *testing.T) {
	d, set := newDecoder(t), compiled(t)
	text := rapid.OneOf(rapid.StringMatching(`[A-Za-z0-9._:-]{128}`), rapid.String(),
		rapid.StringOf(rapid.SampledFrom([]rune{'"', '\\', '\n', 1, 'é', '…', '𝄞', 'x'})),
		rapid.Just(strings.Repeat("\x01", 512)), rapid.Just("\xff\xfe"))
	rapid.Check(t, func(rt *rapid.T) {
		c := coordinator.Decision{
			Agent: coordinator.AgentID(text.Draw(rt, "agent")), Strategy: text.Draw(rt, "strategy"),
			Terms:  []string{text.Draw(rt, "term")},
			Scored: rapid.Bool().Draw(rt, "scored"), Fleet: rapid.Int().Draw(rt, "fleet"),
			Eligible: rapid.Int().Draw(rt, "eligible"),
		}
		c.Candidates = []coordinator.Candidate{{Agent: c.Agent}, {Agent: coordinator.AgentID(text.Draw(rt, "next"))}}
		for why := coordinator.Eligible + 1; why < coordinator.NumIneligibilities; why++ {
			c.Refused[why] = rapid.IntRange(0, 2).Draw(rt, "refused")
			c.Refusals = append([]coordinator.Refusal{{Agent: coordinator.AgentID(text.Draw(rt, "out")), Why: why}},
				c.Refusals...)
		}
		raw, read := explained(rt, d, &c)
		whole := strings.ToValidUTF8(string(appendBrief(nil, &c)), "\ufffd")
		kept, cut := strings.CutSuffix(read, "…")
		switch {
		case len(raw) > MaxExplanation || !utf8.ValidString(read):
			rt.Fatalf("%d bytes: %s", len(raw), raw)
		case raw == read && len(whole) <= MaxExplanation && read != whole && utf8.ValidString(string(appendBrief(nil, &c))):
			rt.Fatalf("it fits, but is %q instead of %q", read, whole)
		case len(whole) > MaxExplanation && (!cut || len(raw) < MaxExplanation-len(`\u0000`)-len("…")):
			rt.Fatalf("%d bytes of %d: %s", len(raw), len(whole), raw)
		case cut && utf8.ValidString(string(appendBrief(nil, &c))) && !strings.HasPrefix(whole, kept):
			rt.Fatalf("%q is not how %q begins", kept, whole)
		}
		dispatch := sampleDispatch()
		dispatch.Decision = &c
		requireFits(t, set, schemas.TaskDispatch, AppendExplainedDispatch(nil, dispatch, nil))
	})
}

func BenchmarkAppendExplainedDispatch(b *testing.B) {
	dispatch := sampleDispatch()
	dispatch.Decision = &coordinator.Decision{
		Strategy: "reward_rate", Scored: true, Agent: "gpu-1", Fleet: 9, Eligible: 2,
		Candidates: []coordinator.Candidate{{Agent: "gpu-1", Key: coordinator.Key{First: -0.9}},
			{Agent: "gpu-2", Key: coordinator.Key{First: -0.85}}},
		Refusals: []coordinator.Refusal{{Agent: "gpu-3", Why: coordinator.Full}},
	}
	dispatch.Decision.Refused[coordinator.Full], dispatch.Decision.Refused[coordinator.LacksCapability] = 1, 6
	dst := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		dst = AppendExplainedDispatch(dst[:0], dispatch, nil)
	}
	b.ReportMetric(float64(len(dst)-len(AppendDispatch(nil, dispatch, nil))), "B/explanation")
}

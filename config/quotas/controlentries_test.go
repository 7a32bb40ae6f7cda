package quotas

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"taskbus/coordinator"
)

// What is remembered of entries changes nothing: a reader that works out one list of controls after the other
// finds at each the same quotas, in the same words what does not fit, and the same text as one that reads
// all of it for the first time.
func TestControlsAreReadAgainAsForTheFirstTime(t *testing.T) {
	const text = `
pool: {limits: {total_tokens: {amount: 1000, per: month}, requests: {amount: 100, per: day}}}
providers: [{provider: openai, share: by_weight, limits: {total_tokens: {amount: 900, per: day}}}]
groups:
  - {id: alpha, weight: 2, limits: {total_tokens: {amount: 300, per: month}}}
  - {id: beta, borrowing: {rule: never}}
  - {id: gamma, parent: beta}
agents:
  - {id: a1, group_id: alpha, weight: 3}
  - {id: b1, group_id: beta, rate_limit_rps: 2}
`
	base := mustParse(t, text)
	entries := map[coordinator.QuotaControlKind][]string{
		coordinator.ControlGroup: {
			`{"weight":1}`, `{"weight":7,"parent":"beta"}`, `{"parent":"r1"}`,
			`{"limits":{"total_tokens":{"amount":50,"per":"month"}}}`,
			`{"limits":{"total_tokens":{"amount":5000,"per":"month"}}}`, `{"wight":1}`, `{"id":"x"}`, `[]`,
			`{"borrowing":{"limit":"20%"}}`, "{# a remark\n weight: 4}",
		},
		coordinator.ControlAgent: {`{"group_id":"alpha"}`, `{"group_id":"r1","weight":2}`, `{"group_id":"nobody"}`,
			`{"group_id":"r2","initial_quota":5}`, `{}`},
	}
	targets := []string{"pool/alpha", "pool/beta", "pool/r1", "pool/r2/r4", "pool/beta/gamma", "pool/alpha/a1",
		"pool/beta/b1", "pool/r1/r3", "openai/alpha", "pool"}
	rapid.Check(t, func(t *rapid.T) {
		file := NewControlledFile(base)
		var standing []coordinator.QuotaControl
		for step := range rapid.IntRange(1, 12).Draw(t, "steps") {
			c := coordinator.QuotaControl{Kind: rapid.SampledFrom([]coordinator.QuotaControlKind{
				coordinator.ControlGroup, coordinator.ControlGroup, coordinator.ControlAgent, coordinator.ControlSet,
				coordinator.ControlBoost,
			}).Draw(t, "kind")}
			switch c.Kind {
			case coordinator.ControlGroup, coordinator.ControlAgent:
				c.Target = fmt.Sprint("r", rapid.IntRange(0, 4).Draw(t, "id"))
				c.Value = rapid.SampledFrom(entries[c.Kind]).Draw(t, "entry")
			case coordinator.ControlSet:
				c.Target, c.Key = rapid.SampledFrom(targets).Draw(t, "node"),
					rapid.SampledFrom([]string{"weight", "total_tokens.amount", "requests.rate"}).Draw(t, "key")
				c.Value = rapid.SampledFrom([]string{"5", "120", "none", "by_weight"}).Draw(t, "value")
			default:
				c.Target, c.Key = rapid.SampledFrom(targets).Draw(t, "node"),
					rapid.SampledFrom([]string{"weight", "total_tokens", "limits"}).Draw(t, "key")
				c.Value = rapid.SampledFrom([]string{"+50%", "-1", "+3"}).Draw(t, "value")
			}
			c = c.Named()
			if i := slices.IndexFunc(standing, func(o coordinator.QuotaControl) bool { return o.ID == c.ID }); i >= 0 {
				standing = slices.Delete(standing, i, i+1)
			}
			if rapid.IntRange(0, 3).Draw(t, "stands") > 0 {
				standing = append(standing, c)
			}
			got, out := file.With(standing, true)
			want, wantOut := controlQuotas(base, standing)
			if !reflect.DeepEqual(out, wantOut) {
				t.Fatalf("step %d: left out %+v, want %+v", step, out, wantOut)
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("step %d: the quotas are\n%+v\n%s\nwant\n%+v\n%s", step, got.Nodes, got.Source, want.Nodes, want.Source)
			}
			again := mustParseQuotasOf(t, want.Source)
			if !reflect.DeepEqual(again.Nodes, got.Nodes) {
				t.Fatalf("step %d: their text gives\n%+v\nwant\n%+v", step, again.Nodes, got.Nodes)
			}
		}
	})
}

func mustParseQuotasOf(t *rapid.T, text string) *coordinator.Quotas {
	q, err := Parse([]byte(text), "quotas.yaml")
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return q
}

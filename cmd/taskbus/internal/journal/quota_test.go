package journal

import (
	"testing"

	"taskbus/coordinator"
)

// What the journal has of quotas is said in words.
func TestQuotaRecordsInWords(t *testing.T) {
	amounts := coordinator.Amounts{coordinator.DimRequests: 1, coordinator.DimTotalTokens: 1712, coordinator.DimCost: 8120}
	for want, r := range map[string]coordinator.Record{
		"quota is set aside for a call of alpha at openai/gpt-4o: 1712 tokens, $0.0081": &coordinator.QuotaReserved{
			Group: "alpha", Agent: "a1", Provider: "openai", Model: "gpt-4o", Amounts: amounts, Call: true},
		"quota is set aside for a task: 1 request": &coordinator.QuotaReserved{
			Amounts: coordinator.Amounts{coordinator.DimRequests: 1}},
		"the turn of group a has moved while a task of it waits": &coordinator.ShareBefore{Group: "a"},
		"announced: 90% of total_tokens of pool/a are used or set aside": &coordinator.QuotaTold{
			Node: "pool/a", Dimension: coordinator.DimTotalTokens, Percent: 90},
		"more quota is set aside: 1712 tokens, $0.0081": &coordinator.QuotaExtended{
			More: amounts},
		"used: 1712 tokens, $0.0081": &coordinator.QuotaEnded{
			How: coordinator.QuotaSettled, Used: amounts},
		"used: 0 requests, reported after its time was over": &coordinator.QuotaEnded{
			How: coordinator.QuotaSettled, Late: &coordinator.QuotaOwner{}},
		"quota is given back: nothing was used": &coordinator.QuotaEnded{
			How: coordinator.QuotaReleased},
		"quota is given back: its end was not reported in time": &coordinator.QuotaEnded{
			How: coordinator.QuotaExpired},
	} {
		var line entry
		newTeller().record(&line, r)
		if line.Text != want {
			t.Errorf("%+v: %q, want %q", r, line.Text, want)
		}
	}
}

package service

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// quotaMetrics gathers those of quotas, by name and labels in the order of their names.
func (r *rig) quotaMetrics() map[string]float64 {
	r.t.Helper()
	families, err := r.service.options.Registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	got := make(map[string]float64)
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "taskbus_quota_") {
			continue
		}
		for _, m := range f.GetMetric() {
			key := f.GetName()
			for _, l := range m.GetLabel() {
				key += " " + l.GetValue()
			}
			got[key] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return got
}

func TestQuotaMetrics(t *testing.T) {
	inQuotaRig(t, func(r *rig) {
		r.task("t-1", "build", usage(700, 210, "poor"))
		r.task("t-2", "build", usage(50, 50, "poor"))
		// 455; and t-2's 100 go out
		r.result("a1", "t-1", "succeeded", `,"usage":{"requests":1,"input_tokens":355,"output_tokens":100}`)
		r.task("t-3", "build", usage(1000, 1000, "rich"))
		r.task("t-4", "build", usage(400, 400, "poor")) // 455 + 100 + 800
		got := r.quotaMetrics()
		for key, want := range map[string]float64{ // labels in the order of their names
			"taskbus_quota_used total_tokens pool/poor":      455,
			"taskbus_quota_reserved total_tokens pool/poor":  100,
			"taskbus_quota_limit total_tokens pool/poor":     1000,
			"taskbus_quota_reserved cost_usd pool/rich":      0.5,
			"taskbus_quota_bucket_remaining requests openai": 1, // of 2
			"taskbus_quota_waiting poor":                     1,
			"taskbus_quota_waiting_for_quota poor":           1,
			"taskbus_quota_waiting other":                    0,
			"taskbus_quota_refusals_total total_tokens":      0,
			"taskbus_quota_estimate_error":                   1, // 910 for 455: twice as much
			"taskbus_quota_series_dropped":                   0,
			"taskbus_quota_alerts_total 80":                  1, // of the group, whose only agent has all of it
			"taskbus_quota_alerts_total 90":                  1,
		} {
			if v, known := got[key]; v != want || !known && want != 0 {
				t.Errorf("%s is %v, want %v", key, v, want)
			}
		}
		if n := got["taskbus_quota_refusals_total total_tokens budget"]; n < 2 {
			t.Errorf("%v refusals, want those of t-2 and t-4", n)
		}
	})
}

// lending are two groups of 1,000 tokens a minute each, one of three times the weight.
const lending = `
pool: {limits: {total_tokens: {amount: 2000, per: minute}}}
groups:
  - {id: borrower, weight: 1, limits: {total_tokens: {amount: 1000, per: minute}}}
  - {id: lender, weight: 3, limits: {total_tokens: {amount: 1000, per: minute}}}
`

// What one group has borrowed of another, the debt that it makes, and both groups' parts of what
// was dispatched. After half of the minute half of the lender's 1,000 have accrued to it, of which
// the borrower takes 300 beyond its own 1,000; then it uses 1,400, which are 100 more.
func TestQuotaMetricsOfLoans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, quotaFleet)
		r.under(lending)
		r.start()
		defer r.close()
		begin := time.Now().Truncate(time.Minute)
		r.pass(time.Until(begin.Add(30 * time.Second)))
		r.tenSlots()
		r.task("t-1", "build", usage(900, 400, "borrower")) // 1,300 tokens, in the order of turns 900 + 2·400 = 1,700
		r.task("t-2", "build", usage(100, 100, "lender"))   // 200; 100 + 2·100 = 300
		r.result("a1", "t-1", "succeeded", `,"usage":{"requests":1,"input_tokens":900,"output_tokens":500}`)
		if now := time.Now(); now.After(begin.Add(time.Minute)) {
			t.Fatalf("it is %v: another minute has begun", now)
		}
		got := r.quotaMetrics()
		for key, want := range map[string]float64{ // labels in the order of their names
			"taskbus_quota_used total_tokens pool/borrower":     1400,
			"taskbus_quota_limit total_tokens pool/borrower":    1300, // its own and what it has borrowed
			"taskbus_quota_borrowed total_tokens pool/borrower": 300,  // 1300 - 1000
			"taskbus_quota_lent total_tokens pool/borrower":     0,
			"taskbus_quota_debt total_tokens pool/borrower":     100, // 1400 - 1000 - 300
			"taskbus_quota_reserved total_tokens pool/lender":   200,
			"taskbus_quota_limit total_tokens pool/lender":      700, // 1000 - 300
			"taskbus_quota_borrowed total_tokens pool/lender":   0,
			"taskbus_quota_lent total_tokens pool/lender":       300,
			"taskbus_quota_debt total_tokens pool/lender":       0,
			"taskbus_quota_borrowed total_tokens pool":          0, // no node is above it
			"taskbus_quota_lent total_tokens pool":              0,
			"taskbus_quota_share borrower":                      0.85, // 1700 of 1700 + 300
			"taskbus_quota_share lender":                        0.15,
			"taskbus_quota_share other":                         0,
			"taskbus_quota_target_share borrower":               0.25, // weights 1 and 3: both have had a part
			"taskbus_quota_target_share lender":                 0.75,
			"taskbus_quota_target_share other":                  0, // nothing of it was there
		} {
			if v, known := got[key]; v != want || !known {
				t.Errorf("%s is %v, there: %v; want %v", key, v, known, want)
			}
		}
	})
}

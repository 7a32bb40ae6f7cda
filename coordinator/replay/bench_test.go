package replay

import "testing"

// BenchmarkVerify says how many inputs a second are replayed and compared.
func BenchmarkVerify(b *testing.B) {
	w, policies := eventful(b, 1<<30)
	r := recording(b, w.messages)
	for b.Loop() {
		if v, err := r.Verify(policies.find); err != nil || v.Difference != nil {
			b.Fatal(v, err)
		}
	}
	b.ReportMetric(float64(b.N*r.count)/b.Elapsed().Seconds(), "inputs/s")
}

// BenchmarkCompare says how long a comparison takes: the replay, and two models.
func BenchmarkCompare(b *testing.B) {
	w, policies := eventful(b, 1<<30)
	r := recording(b, w.messages)
	for b.Loop() {
		if _, err := r.Compare(policies.find, policies.under("load_balanced")); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*r.count)/b.Elapsed().Seconds(), "inputs/s")
}

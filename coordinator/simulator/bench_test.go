package simulator

import "testing"

// BenchmarkPlay: one operation is one run of a shipped scenario under one strategy,
// a third as long. events/s are those of the engine; everything else that the
// simulator does is in the time.
func BenchmarkPlay(b *testing.B) {
	for _, name := range []string{"balancing", "herding", "ten-thousand"} {
		for _, strategy := range []string{"least_loaded", "reward_rate"} {
			b.Run(name+"/"+strategy, func(b *testing.B) {
				s, err := Open(name)
				if err != nil {
					b.Fatal(err)
				}
				s.Duration, s.WarmUp, s.Seeds = s.Duration/3, s.WarmUp/3, s.Seeds[:1]
				s.Workloads[0].Until = s.Duration
				for _, v := range s.Strategies {
					if v.Label == strategy {
						s.Strategies = []Variant{v}
					}
				}
				if len(s.Strategies) != 1 {
					b.Fatalf("%s has no strategy labelled %s", name, strategy)
				}
				b.ReportAllocs()
				events := 0.0
				for b.Loop() {
					events += played(b, s).Strategies[0].Events.Mean
				}
				b.ReportMetric(events/b.Elapsed().Seconds(), "events/s")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

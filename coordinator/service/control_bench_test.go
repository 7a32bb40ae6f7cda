package service

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"taskbus/coordinator"
)

// groupRegistered is the record of a group that comes, with a budget of its own beside those that it
// has a part of.
func groupRegistered(i int) *coordinator.QuotaControlled {
	one := coordinator.QuotaControl{Kind: coordinator.ControlGroup, Target: fmt.Sprint("g", i),
		Value: `{"weight":1,"limits":{"cost_usd":{"amount":5,"per":"day"}}}`}.Named()
	return &coordinator.QuotaControlled{Set: []coordinator.QuotaControl{one}}
}

// cpuTime is what this process has taken of the processors: others work on them as well.
func cpuTime(b *testing.B) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// BenchmarkRegisteredGroup is what it takes to take over one group more, or less, where so many groups
// have been registered and some calls have ended a moment ago: what the configuration is, and the books.
func BenchmarkRegisteredGroup(b *testing.B) {
	for _, n := range []int{1, 100, 300, 900} {
		for _, calls := range []int{1, 10_000} {
			b.Run(fmt.Sprintf("groups=%d/calls=%d", n, calls), func(b *testing.B) {
				s, at := servedBy(b, groupedQuotas), epoch
				e := s.loop.engine
				for i := range calls {
					for _, r := range used(i, at, 10) {
						if ended, is := r.(*coordinator.QuotaEnded); is {
							ended.Keep = true
						}
						s.foldRecord(at, r)
					}
				}
				for i := range n {
					e.Fold(at, groupRegistered(i))
				}
				s.foldControls()
				last := groupRegistered(n)
				before := cpuTime(b)
				for b.Loop() {
					at = at.Add(time.Millisecond)
					e.Fold(at, last)
					s.foldControls()
					e.Fold(at, &coordinator.QuotaControlled{Removed: []string{last.Set[0].ID}})
					s.foldControls()
				}
				b.ReportMetric((cpuTime(b)-before).Seconds()*1e3/float64(2*b.N), "cpu-ms/change")
			})
		}
	}
}

const groupedQuotas = `
pool: {limits: {total_tokens: {amount: 100000000000, per: year}, requests: {amount: 10000000, per: year}}}
groups:
  - {id: team, weight: 3, limits: {total_tokens: {amount: 50000000000, per: year}}}
  - {id: other_team, limits: {total_tokens: {amount: 30000000000, per: year}}}
agents:
  - {id: a1, group_id: team, weight: 3}
  - {id: a2, group_id: team, weight: 2}
  - {id: b1, group_id: other_team}
`

package engine_test

import (
	"fmt"
	"testing"
	"time"

	"taskbus/coordinator"
)

// BenchmarkWaitingClasses is one dispatch of what waits, and the end of the task before it, where so many
// classes of tasks wait for one agent: each dispatch looks at all of them.
func BenchmarkWaitingClasses(b *testing.B) {
	for _, classes := range []int{1, 32, 1024} {
		b.Run(fmt.Sprint("classes=", classes), func(b *testing.B) {
			capabilities := make([]string, classes)
			for i := range capabilities {
				capabilities[i] = fmt.Sprint("c", i)
			}
			r := ready(b, policyOf(worker("a").can(capabilities...)).set(func(s *coordinator.Settings) {
				s.AssignmentTimeout, s.StaleAfter, s.MaxQueueSize = 1000*time.Hour, 1000*time.Hour, 1<<20
			}))
			next := 0
			add := func() {
				r.assign(job(numbered(next)).needs(capabilities[next%classes]).prio(coordinator.Priority(next % 4)))
				next++
			}
			for range classes + 100 {
				add()
			}
			b.ResetTimer()
			for range b.N {
				d := r.latest()
				r.confirm(d.Handle)
				r.tell(says("a", d.Task.ID))
				add()
			}
		})
	}
}

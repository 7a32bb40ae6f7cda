package integration

import (
	"math"
	"testing"
	"time"
)

// Ten agents, the slowest of which is an eighth as quick as the fastest, under a load
// that keeps all of them busy: each does its part of the work, by its capacity.
func TestPullSharesByCapacity(t *testing.T) {
	t.Parallel()
	const (
		slots  = 6   // of each, in agents.yaml; its own are twice as many
		warmUp = 300 // tasks by which all are measured
		load   = 800
		// Of an agent's part: the quicker it is, the more of its time goes between two
		// claims, and the busier the machine, the more of that it takes. Besides, each may do all of its slots once more
		// while the others end.
		tolerance = 0.35
	)
	// How long a task takes in one of six slots: 20, 17, 13, 10, 8.3, 6.3, 5, 4.2, 3.1 and
	// 2.5 tasks a second, 89 together.
	work := []time.Duration{300, 360, 480, 600, 720, 960, 1200, 1440, 1920, 2400}
	config, ids := pullers(len(work), slots)
	r := newRig(t, config)
	b := r.open()
	c := r.start()
	var all []*member
	sum := 0.0
	for i, id := range ids {
		all = append(all, r.puller(b, id, 2*slots, lasting(work[i]*time.Millisecond)))
		sum += slots / (work[i] * time.Millisecond).Seconds()
	}
	tasks := numbered(warmUp + load)
	b.offer(r.client, tasks[:warmUp]...)
	b.allEnd(t, 60*time.Second)
	before := make([]int, len(all))
	for i, m := range all {
		before[i], _ = m.count()
	}

	begun := time.Now()
	b.offer(r.client, tasks[warmUp:]...)
	b.allEnd(t, 60*time.Second)
	took := time.Since(begun)
	for i, m := range all {
		m.retire()
		n, most := m.count()
		want := load * slots / (work[i] * time.Millisecond).Seconds() / sum
		t.Logf("%s: %3d tasks, its part is %5.1f (%+.0f %%)", m.id, n-before[i], want, 100*(float64(n-before[i])/want-1))
		if off := math.Abs(float64(n-before[i]) - want); off > tolerance*want+slots {
			t.Errorf("%s did %d of %d tasks, want %.1f ± %.1f", m.id, n-before[i], load, want, tolerance*want+slots)
		}
		if most > slots {
			t.Errorf("%s had %d tasks at once in %d slots", m.id, most, slots)
		}
	}
	t.Logf("%d tasks in %v; at %.0f a second they would take %.1f s", load, took, sum, load/sum)
	r.close(c, b, nil)
	for id := range b.acknowledged {
		if by := b.begunBy(id); len(by) != 1 {
			t.Errorf("%s was begun by %v", id, by)
		}
	}
}

package simulator

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
)

const goodPriorities = `about: an overload
seeds: [3]
priorities:
  slots: 8
  service_seconds: 2
  load: 1.5
  seconds: 60
  mix: {critical: 1, low: 3}
  weights: {critical: 10}
`

func TestReadPriorities(t *testing.T) {
	s, err := Read("good.yaml", "good", []byte(goodPriorities))
	if err != nil {
		t.Fatal(err)
	}
	want := &Priorities{
		Slots: 8, Duration: Distribution{Shape: Constant, Mean: 2}, Load: 1.5, For: time.Minute,
		Mix: [4]float64{0.75, 0, 0, 0.25}, Order: coordinator.PriorityOrder{Weights: [4]int64{1, 4, 16, 10}},
		Ageing: 5 * time.Second,
	}
	if !reflect.DeepEqual(s.Priorities, want) {
		t.Errorf("%+v, want %+v", s.Priorities, want)
	}
	// 1.5 × 8 slots / 2 s are 6 tasks a second, so 360 in a minute.
	tasks, urgent := s.Priorities.Draw(1), 0
	if !reflect.DeepEqual(tasks, s.Priorities.Draw(1)) {
		t.Error("the second time they are different")
	}
	for i, x := range tasks {
		if x.Takes != 2*time.Second || x.At >= time.Minute || i > 0 && x.At < tasks[i-1].At || x.Priority != 0 &&
			x.Priority != 3 {
			t.Fatalf("task %d: %+v", i, x)
		}
		if x.Priority == 3 {
			urgent++
		}
	}
	if n := len(tasks); n < 300 || n > 420 || urgent < n/6 || urgent > n/3 {
		t.Errorf("%d tasks, %d of them critical; want about 360, and a quarter", n, urgent)
	}
}

func TestReadPrioritiesFaults(t *testing.T) {
	for _, tt := range []struct{ name, old, with, want string }{
		{"no slots", "  slots: 8\n", "", "priorities.slots: is missing"},
		{"no load", "load: 1.5", "load: 0", "priorities.load: must be"},
		{"a priority that there is not", "critical: 1", "urgent: 1", "urgent"},
		{"weight 0", "critical: 10", "critical: 0", "priorities.weights.critical: must be a whole number from 1 to 1000000"},
		{"a fleet as well", "seeds: [3]", "fleet: []", "fleet: unknown key"},
		// 100 × 100,000 slots / 2 s × 60 s: 3e8 tasks.
		{"too much", "slots: 8\n  service_seconds: 2\n  load: 1.5", "slots: 100000\n  service_seconds: 2\n  load: 100",
			"have fewer seeds, slots or seconds"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Read("bad.yaml", "bad", []byte(strings.Replace(goodPriorities, tt.old, tt.with, 1)))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one that says %q", err, tt.want)
			}
		})
	}
}

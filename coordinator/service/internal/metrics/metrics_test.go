package metrics

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"taskbus/coordinator"
)

// Only what a strategy scores is observed, and only the agent that got the task.
func TestScoresAreObserved(t *testing.T) {
	at := time.Unix(1000, 0)
	m := New(func() time.Time { return at })
	decided := func(agent coordinator.AgentID, scored bool) *coordinator.Dispatch {
		d := &coordinator.Dispatch{Task: &coordinator.Task{ID: "t-1", AcceptedAt: at}, Agent: agent, At: at}
		d.Decision = &coordinator.Decision{Strategy: "least_loaded", Scored: scored, Agent: agent,
			Candidates: []coordinator.Candidate{
				{Agent: "a1", Key: coordinator.Key{First: -0.85}}, {Agent: "a2", Key: coordinator.Key{First: -0.45}},
			}}
		return d
	}
	for _, c := range []struct {
		name   string
		d      *coordinator.Dispatch
		score  float64
		scored bool
	}{
		{"the best", decided("a1", true), 0.85, true},
		{"another, that was preferred", decided("a2", true), 0.45, true},
		{"one beyond the candidates", decided("a9", true), 0, false},
		{"a strategy without scores", decided("a1", false), 0, false},
	} {
		if score, ok := scoreOf(c.d); score != c.score || ok != c.scored {
			t.Errorf("%s: %v, %v; want %v, %v", c.name, score, ok, c.score, c.scored)
		}
		m.Assigned(c.d, at)
	}
	registry := prometheus.NewRegistry()
	for _, c := range m.Collectors() {
		registry.MustRegister(c)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "taskbus_assignment_score" {
			if n := f.Metric[0].Histogram.GetSampleCount(); len(f.Metric) != 1 || n != 2 ||
				f.Metric[0].Label[0].GetValue() != "least_loaded" {
				t.Errorf("%v, want 2 scores observed of least_loaded", f.Metric)
			}
			return
		}
	}
	t.Error("no score was observed")
}

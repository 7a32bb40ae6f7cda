package simulator

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
)

// scenario reads a scenario that is in order. Tabs may indent it.
func scenario(t testing.TB, text string) *Scenario {
	t.Helper()
	s, err := Read("test.yaml", "test", []byte(strings.ReplaceAll(text, "\t", "  ")))
	if err != nil {
		t.Fatalf("the scenario of the test is not in order:\n%v", err)
	}
	return s
}

// played plays a scenario.
func played(t testing.TB, s *Scenario) *Report {
	t.Helper()
	r, err := Play(context.Background(), s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// finished plays one run of a scenario and gives its world as it ended.
func finished(t testing.TB, s *Scenario, variant int, seed uint64) *world {
	t.Helper()
	w, err := newWorld(s, &s.Strategies[variant], seed, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.run(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	return w
}

// approx compares with a tolerance that is a share of what is wanted.
func approx(t testing.TB, what string, got, want, tolerance float64) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(got-want) > tolerance*math.Abs(want)+1e-9 {
		t.Errorf("%s: %.6g, want %.6g within %g %%", what, got, want, 100*tolerance)
	}
}

// conserved checks that no task was lost or counted twice.
func conserved(t testing.TB, what string, n Tasks) {
	t.Helper()
	if n.Arrived != n.Succeeded+n.FailedByAgent+n.Refused+n.Open {
		t.Errorf("%s: %d arrived, but %d succeeded + %d failed at their agents + %d failed by the coordinator + %d open",
			what, n.Arrived, n.Succeeded, n.FailedByAgent, n.Refused, n.Open)
	}
}

// oneAgent is a scenario of one agent and the strategies that are given.
func oneAgent(agent, workload, strategies string) string {
	return fmt.Sprintf(`
duration_seconds: 100
fleet:
  - {name: a, capabilities: [work], %s}
workloads:
  - {task_type: job, required_capabilities: [work], %s}
strategies: %s
settings: {assignment_timeout_seconds: 10000, max_load: 1.01}
`, agent, workload, strategies)
}

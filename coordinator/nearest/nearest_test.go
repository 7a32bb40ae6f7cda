package nearest

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestDidYouMean(t *testing.T) {
	task := []string{"message_type", "task_id", "task_type", "payload", "priority", "correlation_id", "timeout_seconds",
		"required_capabilities", "preferred_agents", "excluded_agents", "group", "deadline", "labels"}
	agent := []string{"capabilities", "max_concurrent_tasks", "priority", "queue", "mode", "labels",
		"health_check_interval"}
	for _, tc := range []struct {
		got   string
		known []string
		want  string
	}{
		{"prioritiy", task, "did you mean priority?"}, // one letter too many
		{"Prioirty", task, "did you mean priority?"},  // two exchanged, another case
		{"task-type", task, "did you mean task_type?"},
		{"timeout", task, "did you mean timeout_seconds?"}, // a word of it
		{"type", task, "did you mean message_type or task_type?"},
		{"id", task, "did you mean task_id or correlation_id?"},
		{"concurrency", agent, "did you mean max_concurrent_tasks?"}, // begins like a word of it: "concurren"
		{"capability", agent, "did you mean capabilities?"},
		{"agents", task, "did you mean preferred_agents or excluded_agents?"},
		{"max_concurrency", agent, "did you mean max_concurrent_tasks?"},
		{"group_id", task, "did you mean group?"}, // all words of it
		{"task_timeout", task, ""},
		{"prio", task, "did you mean priority?"}, // how it begins
		{"cod", []string{"code-review", "deploy"}, "did you mean code-review?"},
		{"co", []string{"code-review", "deploy"}, ""}, // too short to say anything
		{"model", agent, ""},                          // and not mode
		{"slots", agent, "did you mean max_concurrent_tasks?"},
		{"data", task, "did you mean payload?"},
		{"temperature", task, ""},
		{"x", agent, ""},
		{"", agent, ""},
		{strings.Repeat("priority", 100), task, ""}, // a long name costs little
		{"anything", nil, ""},
	} {
		if got := DidYouMean(tc.got, tc.known); got != tc.want {
			t.Errorf("%q: %q, want %q", tc.got, got, tc.want)
		}
	}
	if near := Names("id", []string{"a_id", "b_id", "c_id", "d_id"}); near != nil {
		t.Errorf("a word that many share gives %v, want none", near)
	}
}

// Where the limit ends the count early, it is not less.
func TestEditDistanceWithinALimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[ab_]{0,8}`)
		a, b, limit := word.Draw(t, "a"), word.Draw(t, "b"), rapid.IntRange(1, 9).Draw(t, "limit")
		if got, want := editDistance(a, b, limit), min(limit, editDistance(a, b, 100)); got != want {
			t.Fatalf("%q %q: %d, want %d", a, b, got, want)
		}
	})
}

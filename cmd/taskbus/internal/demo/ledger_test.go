package demo

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"taskbus/coordinator"
)

// The ledger's promise: every line ends in exactly one outcome, or a fault is reported.
func TestLedgerAccountsForEveryLine(t *testing.T) {
	tests := []struct {
		name         string
		lines        []string // task ids submitted, "" for one that cannot be read
		begun        []string
		outcomes     []outcome
		open, excess int
	}{
		{
			name:     "one line, one outcome",
			lines:    []string{"a"},
			outcomes: []outcome{{task: "a", agent: "gpu-1"}},
		},
		{
			name:  "begun twice is begun once too often",
			lines: []string{"a"}, begun: []string{"a", "a"}, outcomes: []outcome{{task: "a", agent: "gpu-1"}},
			excess: 1,
		},
		{
			name:  "a line without an outcome is open",
			lines: []string{"a", "b"}, outcomes: []outcome{{task: "a", agent: "gpu-1"}},
			open: 1,
		},
		{
			name:     "two lines of one id want two outcomes",
			lines:    []string{"a", "a"},
			outcomes: []outcome{{task: "a", agent: "gpu-1"}, {task: "a", duplicate: true}},
		},
		{
			name:     "a second outcome of one line is one too many",
			lines:    []string{"a"},
			outcomes: []outcome{{task: "a", agent: "gpu-1"}, {task: "a", agent: "gpu-2"}},
			excess:   1,
		},
		{
			name:     "other programs' tasks do not count",
			lines:    []string{"a"},
			outcomes: []outcome{{task: "stranger", agent: "gpu-1"}, {task: "a", reason: "no_agents_online"}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLedger()
			for _, id := range tt.lines {
				l.expect(taskID([]byte(`{"task_id":"` + id + `"}`)))
			}
			for _, id := range tt.begun {
				l.began(coordinator.TaskID(id), "gpu-1")
			}
			for _, o := range tt.outcomes {
				l.record(o)
			}
			_, surplus := l.all()
			if len(l.open()) != tt.open || len(surplus) != tt.excess {
				t.Errorf("open %v, one too many %v; want %d and %d", l.open(), surplus, tt.open, tt.excess)
			}
		})
	}
}

func TestSummaryFailsWhenSomethingIsMissing(t *testing.T) {
	l := newLedger()
	l.expect("lost")
	var out bytes.Buffer
	err := summarise(t.Context(), &out, &process{base: "http://127.0.0.1:1"}, l, 1)
	if !errors.Is(err, ErrUnaccounted) || !strings.Contains(out.String(), "no outcome: lost") {
		t.Errorf("%v\n%s", err, out.String())
	}
	l.record(outcome{task: "lost", reason: "no_agents_online", text: "0 of 6 agents eligible"})
	out.Reset()
	if err := summarise(t.Context(), &out, &process{base: "http://127.0.0.1:1"}, l, 1); err != nil ||
		!strings.Contains(out.String(), "no_agents_online") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// Of a demonstration that was stopped the summary says so, and what the coordinator still knows.
func TestSummaryOfAStoppedDemo(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_,
			_ =
			w.Write(
				[]byte(
					`{"task_id":"a","state":"dispatched","agent_id":"gpu-1","strategy":"least_loaded","priority":2,` +
						`"duration_ms":1.5}`))
	}))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := newLedger()
	l.expect("a")
	l.expect("b")
	l.record(outcome{task: "b", agent: "gpu-1", result: "succeeded"})
	var out bytes.Buffer
	err := summarise(ctx, &out, &process{base: server.URL}, l, 2)
	for _, want := range []string{"stopped by you: 1 had not ended\n", "no outcome: a (dispatched gpu-1)\n",
		"least_loaded"} {
		if !errors.Is(err, ErrUnaccounted) || !strings.Contains(out.String(), want) || strings.Contains(out.String(), "?") {
			t.Errorf("%v; want %q in\n%s", err, want, out.String())
		}
	}
}

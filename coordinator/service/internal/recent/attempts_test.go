package recent_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/service/internal/recent"
	"taskbus/coordinator/view"
)

// story makes a history and what happens to its one task.
type story struct {
	*recent.Tasks
	task *coordinator.Task
	at   time.Time
}

func newStory() *story {
	at := time.Unix(1000, 0)
	return &story{recent.New(4), taskNamed("t-1", at), at}
}

func (s *story) dispatch(agent coordinator.AgentID, attempt int) {
	s.Dispatching(dispatchOf(s.task, agent, attempt, s.at.Add(time.Duration(attempt)*time.Second)))
}

func (s *story) comesBack(agent coordinator.AgentID, attempt int, cause coordinator.ReturnCause,
	tried ...coordinator.AgentID) {
	s.Returned(&coordinator.TaskReturned{Task: s.task, Agent: agent, Attempt: attempt, Cause: cause, Tried: tried,
		Failed: tried[:min(len(tried), 1)]}, s.at)
}

func (s *story) ends(agent coordinator.AgentID, attempt int, outcome coordinator.Outcome, words string) {
	c := completedBy(s.task, agent, s.at.Add(time.Minute))
	c.Attempt, c.Result.Outcome, c.Result.Error = attempt, outcome, words
	s.Completed(c)
}

func (s *story) text() string {
	r, _ := s.Find("t-1")
	var parts []string
	for _, a := range recent.Attempts(&r) {
		part := fmt.Sprintf("%d %s %s", a.Number, a.Agent, a.Outcome)
		if a.Detail != "" {
			part += " (" + a.Detail + ")"
		}
		parts = append(parts, strings.TrimSpace(part))
	}
	return strings.Join(parts, "; ")
}

func TestAttemptsAreRemembered(t *testing.T) {
	for _, tc := range []struct {
		name  string
		happy func(s *story)
		want  string
	}{
		{"none yet", func(s *story) { s.Accepted(s.task, true) }, ""},
		{"one that is out", func(s *story) { s.Accepted(s.task, true); s.dispatch("a1", 1) }, "1 a1"},
		{"one that succeeded", func(s *story) { s.dispatch("a1", 1); s.ends("a1", 1, coordinator.OutcomeSucceeded, "") },
			"1 a1 succeeded"},
		{"one that failed, with its words",
			func(s *story) { s.dispatch("a1", 1); s.ends("a1", 1, coordinator.OutcomeFailed, "no disk") },
			"1 a1 failed (no disk)"},
		{"refused with a reason, then done by another", func(s *story) {
			s.dispatch("a1", 1)
			s.GivenBack(&coordinator.GivenBack{Result: coordinator.Result{Task: "t-1", Agent: "a1", Error: "too hot"},
				Attempt: 1})
			s.comesBack("a1", 1, coordinator.ReturnRejected)
			s.dispatch("a2", 2)
			s.ends("a2", 2, coordinator.OutcomeSucceeded, "")
		}, "1 a1 rejected (too hot); 2 a2 succeeded"},
		{"not taken in time, and out again", func(s *story) {
			s.dispatch("a1", 1)
			s.comesBack("a1", 1, coordinator.ReturnExpired)
			s.dispatch("a2", 2)
		}, "1 a1 expired; 2 a2"},
		{"no queue, a full one, and a lost session", func(s *story) {
			for i, o := range []coordinator.PublishOutcome{coordinator.PublishUnroutable, coordinator.PublishRejected,
				coordinator.PublishUnknown} {
				agent := coordinator.AgentID(fmt.Sprint("a", i))
				s.dispatch(agent, i+1)
				s.Settled(dispatchOf(s.task, agent, i+1, s.at), o, s.at)
			}
		}, "1 a0 queue_missing; 2 a1 queue_full; 3 a2 unconfirmed"},
		{"the same dispatch again is no other attempt", func(s *story) {
			s.dispatch("a1", 1)
			s.Settled(dispatchOf(s.task, "a1", 1, s.at), coordinator.PublishUnknown, s.at)
			s.dispatch("a1", 1)
		}, "1 a1"},
		{"overdue", func(s *story) { s.dispatch("a1", 1); s.Failed(timeoutOf(s.task, s.at)) }, "1 a1 timed_out"},
		{"a late result of the first", func(s *story) {
			s.dispatch("a1", 1)
			s.comesBack("a1", 1, coordinator.ReturnTakenBack)
			s.dispatch("a2", 2)
			s.ends("a1", 1, coordinator.OutcomeSucceeded, "")
		}, "1 a1 succeeded; 2 a2 withdrawn"},
		{"what was given away by another coordinator", func(s *story) {
			s.comesBack("a3", 3, coordinator.ReturnRejected, "a1", "a2", "a3")
			s.dispatch("a4", 4)
		}, "0 a1 failed; 0 a2 returned; 3 a3 rejected; 4 a4"},
		{"a return of an attempt that is none of ours changes nothing", func(s *story) {
			s.dispatch("a2", 2)
			s.comesBack("a1", 1, coordinator.ReturnExpired)
		}, "2 a2"},
		{"a result without anything before it", func(s *story) { s.ends("a1", 1, coordinator.OutcomeCancelled, "") },
			"1 a1 cancelled"},
		{"what comes after the end changes nothing", func(s *story) {
			s.dispatch("a1", 1)
			s.ends("a1", 1, coordinator.OutcomeSucceeded, "")
			s.GivenBack(&coordinator.GivenBack{Result: coordinator.Result{Task: "t-1", Agent: "a1"}, Attempt: 1})
			s.comesBack("a1", 1, coordinator.ReturnExpired)
		}, "1 a1 succeeded"},
		{"given away by another coordinator, as the journal says", func(s *story) {
			for i, end := range []coordinator.AttemptEnd{coordinator.EndRefused, coordinator.EndLost, coordinator.EndUnknown} {
				n := i + 1
				s.Follow(s.at.Add(time.Duration(n)*time.Second), []coordinator.Record{
					&coordinator.Assigned{Task: s.task, Agent: "a1", Attempt: n, At: s.at.Add(time.Duration(n) * time.Second)},
					&coordinator.Remembered{Key: coordinator.KeyOf("t-1"), ID: "t-1", Fate: coordinator.FateForgotten, Agent: "a1",
						Attempt: n, End: end, Said: []string{"too hot", "", ""}[i]},
				})
			}
			s.comesBack("a1", 3, coordinator.ReturnExpired) // which the journal has told
		}, "1 a1 rejected (too hot); 2 a1 lost; 3 a1 returned"},
		{"no queue and a full one, as the journal says", func(s *story) {
			for i, o := range []coordinator.PublishOutcome{coordinator.PublishUnroutable, coordinator.PublishRejected} {
				at := s.at.Add(time.Duration(i+1) * time.Second)
				s.Follow(at, []coordinator.Record{
					&coordinator.Assigned{Task: s.task, Agent: coordinator.AgentID(fmt.Sprint("a", i)), Attempt: 1, At: at},
					&coordinator.Remembered{Key: coordinator.KeyOf("t-1"), ID: "t-1", Seen: at, Unpublished: o},
				})
			}
		}, "1 a0 queue_missing; 1 a1 queue_full"},
		{"a snapshot knows no more than which agents had it", func(s *story) {
			s.Follow(s.at, []coordinator.Record{&coordinator.Assigned{
				Task: s.task, Agent: "a3", Attempt: 3, Tried: []coordinator.AgentID{"a1", "a2"},
				Failed: []coordinator.AgentID{"a1"},
			}})
		}, "0 a1 failed; 0 a2 returned; 3 a3"},
		{"submitted again after it failed", func(s *story) {
			s.dispatch("a1", 1)
			s.Failed(timeoutOf(s.task, s.at))
			s.Accepted(taskNamed("t-1", s.at.Add(time.Hour)), true)
		}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStory()
			tc.happy(s)
			if got := s.text(); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			r, _ := s.Find("t-1")
			for _, a := range recent.Attempts(&r) {
				if a.Outcome != "" && !slices.Contains(view.AttemptOutcomes(), a.Outcome) {
					t.Errorf("%q is no outcome that is documented", a.Outcome)
				}
			}
		})
	}
}

// The memory of a task that no agent can do is bounded.
func TestAttemptsAreBounded(t *testing.T) {
	s := newStory()
	for i := range 100 {
		s.dispatch(coordinator.AgentID(fmt.Sprint("a", i)), i+1)
	}
	r, _ := s.Find("t-1")
	all := recent.Attempts(&r)
	if n := len(all); n != recent.MaxPastAttempts+1 || all[n-1].Number != 100 ||
		all[0].Number != 100-recent.MaxPastAttempts {
		t.Errorf("%d attempts, from %d to %d", n, all[0].Number, all[n-1].Number)
	}
}

// A copy that is being read does not change while the history goes on.
func TestAttemptsOfACopyStay(t *testing.T) {
	s := newStory()
	s.dispatch("a1", 1)
	s.dispatch("a2", 2)
	s.dispatch("a3", 3)
	r, _ := s.Find("t-1")
	before := fmt.Sprint(recent.Attempts(&r))
	s.ends("a1", 1, coordinator.OutcomeSucceeded, "late")
	if after := fmt.Sprint(recent.Attempts(&r)); after != before {
		t.Errorf("was %s, is %s", before, after)
	}
}

// The newest tasks that were given to an agent are counted, and no others.
func TestGivenTasksAreCounted(t *testing.T) {
	h := recent.New(8)
	at := time.Unix(1000, 0)
	for i, agent := range []coordinator.AgentID{"a1", "a1", "", "a2", "a2", ""} {
		task := taskNamed(coordinator.TaskID(fmt.Sprint("t-", i)), at)
		h.Accepted(task, true)
		if agent != "" {
			h.Dispatching(dispatchOf(task, agent, 1, at))
		}
	}
	for limit, want := range map[int]string{0: "map[]", 1: "map[a2:1]", 3: "map[a1:1 a2:2]", 100: "map[a1:2 a2:2]"} {
		if got := fmt.Sprint(h.Given(limit)); got != want {
			t.Errorf("the newest %d: %s, want %s", limit, got, want)
		}
	}
}

package agent_test

import (
	"context"
	"reflect"
	"testing"
	"time"

	"taskbus/agent"
	"taskbus/coordinator/bus"
	"taskbus/messages"
)

// giveMarked publishes a dispatch of a task, marked as a possible copy or not.
func (s *site) giveMarked(task, dispatchID string, attempt int, marked bool) {
	s.t.Helper()
	d := dispatch(task)
	d.DispatchID, d.Attempt = dispatchID, attempt
	p := bus.Properties{Type: "task.dispatch", MessageID: d.DispatchID, CorrelationID: d.Task.CorrelationID}
	if marked {
		p.Headers = map[string]any{"x-taskbus-maybe-duplicate": true}
	}
	s.publish(bus.Publication{Key: d.Queue, Properties: p, Body: messages.AppendDispatch(nil, d, nil)})
}

// Copies of what has ended are answered, and settled, as the first was.
func TestBrokerCopies(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var worked calls
	s.run(s.config(), func(_ context.Context, task *agent.Task) (agent.Result, error) {
		worked.add(task.ID)
		if task.ID == "no" {
			return agent.Result{}, agent.Reject("no such model")
		}
		return agent.Result{}, nil
	})
	for _, tt := range []struct {
		task    string
		outcome messages.Outcome
		back    int // messages given back so far, after the copy
	}{
		{"good", messages.Succeeded, 0},
		{"no", messages.Rejected, 2},
	} {
		s.giveMarked(tt.task, tt.task+".1", 1, false)
		first := s.expect(messages.TaskID(tt.task), tt.outcome)
		time.Sleep(moment) // for the confirm: until then the copy would be the same dispatch
		s.await(bus.QueueReassign, tt.back/2, 0)
		s.giveMarked(tt.task, tt.task+".1", 1, true)
		if again := s.expect(messages.TaskID(tt.task), tt.outcome); !reflect.DeepEqual(again, first) {
			t.Errorf("the copy is told %+v, the first was %+v", again, first)
		}
		s.await(bus.QueueReassign, tt.back, 0)
		if n := worked.of(tt.task); n != 1 {
			t.Errorf("%d runs of %s, want 1", n, tt.task)
		}
	}
}

// A second dispatch of a task that runs shares its run.
func TestBrokerSecondDispatchJoins(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var worked calls
	begun, end := make(chan struct{}, 10), make(chan struct{})
	stop := s.run(s.config(), func(_ context.Context, task *agent.Task) (agent.Result, error) {
		worked.add(task.ID)
		begun <- struct{}{}
		<-end
		return agent.Result{}, nil
	})
	s.giveMarked("t", "t.1", 1, false)
	<-begun
	s.giveMarked("t", "t.2", 2, false)
	s.awaitLog("this one joins it", 1)
	s.awaitStatus("that t runs, once", func(m messages.AgentStatus) bool {
		return m.ActiveTasks == 1 &&
			len(m.ActiveTaskIDs) == 1
	})
	close(end)
	for _, want := range []string{"t.2", "t.1"} {
		if m := s.expect("t", messages.Succeeded); m.DispatchID != want {
			t.Errorf("a result of %s, want %s", m.DispatchID, want)
		}
	}
	time.Sleep(moment) // for the confirms; what is not acknowledged would be ready after the stop
	stop()
	s.await("agent.a1", 0, 0)
	if n := worked.of("t"); n != 1 {
		t.Errorf("%d runs, want 1", n)
	}
}

package agentqueues

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
)

// declaring is a broker in which queues are declared, but for those that it refuses.
type declaring struct {
	Broker
	refused string
	done    chan struct{}
}

func (d declaring) EnsureQueue(_ context.Context, q bus.Queue) (bool, error) {
	if q.Name == d.refused {
		return false, errors.New("refused")
	}
	return true, nil
}

func (d declaring) Done() <-chan struct{} { return d.done }

// outcome is what a log was told of the queues declared.
type outcome chan string

func (outcome) QueueChecked(coordinator.EnsureQueue, bool, error) {}

func (o outcome) Declared(declared, unwanted, missing int, err error) {
	if declared+unwanted+missing > 0 {
		o <- fmt.Sprintf("declared %d, unwanted %d, missing %d, %v", declared, unwanted, missing, err)
	}
}

// fleetOf is a configuration with agents of that name.
func fleetOf(t *testing.T, ids ...string) *config.Config {
	t.Helper()
	var text strings.Builder
	text.WriteString("agents:\n")
	for _, id := range ids {
		fmt.Fprintf(&text, "  %s: {capabilities: [work], max_concurrent_tasks: 1}\n", id)
	}
	c, err := config.Parse([]byte(text.String()), "agents.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The engine is told of each new agent's queue that has been declared, for it may have rejected a dispatch meanwhile:
// not of a's, which was there before; nor of c's, which the broker refuses; nor of d's, which has left again.
func TestDeclaredIsTold(t *testing.T) {
	now := fleetOf(t, "a", "b", "c")
	var told []coordinator.Event
	log := make(outcome, 1)
	broker := declaring{refused: "agent.c", done: make(chan struct{})}
	q := New(Options{Bus: broker, Log: log, Config: func() *config.Config { return now },
		Post: func(events ...coordinator.Event) { told = append(told, events...) }})
	q.Declare(fleetOf(t, "a"), fleetOf(t, "a", "b", "c", "d"))
	ended := make(chan struct{})
	go func() { defer close(ended); q.Work() }()
	select {
	case got := <-log:
		if want := "declared 1, unwanted 1, missing 1, refused"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	case <-time.After(10 * time.Second):
		t.Error("no queue was declared")
	}
	close(broker.done)
	<-ended
	want := []coordinator.Event{coordinator.QueueChecked{Agent: "b", Exists: true}}
	if len(told) != 1 || told[0] != want[0] {
		t.Errorf("the engine was told %+v, want %+v", told, want)
	}
}

package service

import (
	"context"
	"errors"
	"testing"
	"time"

	"taskbus/coordinator/engine"
)

// What a query that was given up would have written to belongs to its caller.
func TestQueryGivenUpNeverRuns(t *testing.T) {
	l := newLoop(time.Now, nil)
	given, cancel := context.WithCancel(context.Background())
	cancel()
	ran := false
	if err := l.query(given, func(time.Time, *engine.Engine) { ran = true }); !errors.Is(err, context.Canceled) {
		t.Fatalf("a query that nobody answers: %v", err)
	}
	running, stop := context.WithCancel(context.Background())
	go l.run(running)
	if err := l.query(context.Background(), func(time.Time, *engine.Engine) {}); err != nil {
		t.Fatal(err) // behind the first in the inbox
	}
	stop()
	<-l.stopped
	if ran {
		t.Error("it ran after its caller had gone")
	}
}

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
		t.Fatalf("a query without an answer: %v", err)
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

// endsNow is a context that ends when it is asked, right after a last word.
type endsNow struct {
	context.Context
	word func()
}

func (c *endsNow) Err() error {
	c.word()
	c.word = func() {}
	return context.Canceled
}

// What was posted before the end is done before the end: how a session closes is among
// it.
func TestLoopEndsAfterWhatWasPosted(t *testing.T) {
	l := newLoop(time.Now, silent{})
	done := false
	l.run(&endsNow{t.Context(), func() { l.enqueue(envelope{call: func(time.Time) { done = true }}) }})
	if !done {
		t.Error("the last that was posted has not been done")
	}
}

package bustest

import (
	"context"
	"errors"

	"taskbus/coordinator/bus"
)

func alarmCases() []testCase {
	cases := []testCase{
		{name: "publishers are held up and go on", run: alarmHoldsUp},
		{name: "Close does not wait for the alarm's end", run: alarmClose},
		{name: "all publishing is held up, and nothing else", run: alarmHoldsUpAll},
		{name: "a lock that becomes free is taken after the alarm", run: alarmLock},
	}
	for i := range cases {
		cases[i].needs = func(f Features) bool { return f.Alarms }
		cases[i].without = "cannot raise a memory or disk alarm (Features.Alarms)"
	}
	return cases
}

// openBlocked opens a session, raises the alarm, publishes one message and
// waits until the session has been told. A broker tells only connections that publish.
func openBlocked(r *rig) (c *client, told <-chan bool) {
	r.t.Helper()
	heard := make(chan bool, 16)
	c = r.openSpec(bus.SessionSpec{
		Topology:  declare(quorum("q")),
		OnBlocked: func(blocked bool, _ string) { heard <- blocked },
	})
	c.store("q", "before")
	r.block(true)
	c.send(text("q", "during"))
	if !receive(r.t, "OnBlocked", heard) {
		r.t.Fatal("OnBlocked(false) came first")
	}
	return c, heard
}

func alarmHoldsUp(r *rig) {
	c, told := openBlocked(r)
	unblock := true
	defer func() {
		if unblock {
			r.block(false)
		}
	}()
	in := c.read("q", 1)
	c.Ack(in.bodies("before")[0].Tag) // consuming goes on
	if n := len(c.arrived); n != 0 {
		r.t.Errorf("%d publications were settled during the alarm", n)
	}
	unblock = false
	r.block(false)
	if receive(r.t, "OnBlocked(false)", told) {
		r.t.Error("OnBlocked(true) came twice")
	}
	if s := c.settled(); s.outcome != bus.Confirmed {
		r.t.Errorf("the publication held up is %v, want confirmed", s.outcome)
	}
	in.bodies("during")
}

func alarmClose(r *rig) {
	c, _ := openBlocked(r)
	defer r.block(false)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = c.Close(ctx) // may say that something is unsettled
	receive(r.t, "Done", c.Done())
	record := c.settlements()
	if len(record) != 2 || record[1].outcome != bus.Unknown {
		r.t.Errorf("settled %+v, want the second publication unknown", record)
	}
}

// alarmHoldsUpAll: the window has room, and yet nothing is accepted in any order.
func alarmHoldsUpAll(r *rig) {
	c, told := openBlocked(r)
	unblock := true
	defer func() {
		if unblock {
			r.block(false)
		}
	}()
	accepted := make(chan error, orders)
	for order := range orders {
		p := ordered(order, 1)
		p.Key = "q"
		go func() { accepted <- c.Publish(p) }()
	}
	in := c.read("q", 10)
	in.bodies("before")
	for range 10 {
		if _, err := c.EnsureQueue(r.ctx(), quorum("late")); err != nil {
			r.t.Errorf("EnsureQueue: %v", err)
		}
		c.waitDepth("q", bus.Depth{Consumers: 1})
	}
	if n := len(accepted); n != 0 {
		r.t.Errorf("%d publications were accepted during the alarm", n)
	}
	unblock = false
	r.block(false)
	if receive(r.t, "OnBlocked(false)", told) {
		r.t.Error("OnBlocked(true) came twice")
	}
	for range orders {
		if err := receive(r.t, "Publish to return", accepted); err != nil {
			r.t.Errorf("Publish: %v", err)
		}
	}
	for range orders + 1 {
		s := c.settled()
		if s.outcome != bus.Confirmed {
			r.t.Errorf("token %d is %v, want confirmed", s.token, s.outcome)
		}
		in.next()
	}
	// What was accepted in three orders has no order that the client could know.
	c.published = nil
	for _, s := range c.settlements() {
		c.published = append(c.published, s.token)
	}
}

// alarmLock: to see whether a lock is free takes a publication.
func alarmLock(r *rig) {
	holder, watch := r.open(declare()), r.open(declare())
	holder.lead()
	told := make(chan bool, 16)
	next := r.openSpec(bus.SessionSpec{OnBlocked: func(blocked bool, _ string) { told <- blocked }})
	hasty := r.open(declare())
	r.block(true)
	unblock := true
	defer func() {
		if unblock {
			r.block(false)
		}
	}()
	taken, gaveUp := make(chan error, 1), make(chan error, 1)
	ctx, cancel := context.WithCancel(r.ctx())
	go func() { taken <- next.TakeLock(r.ctx(), lockName, nil) }()
	go func() { gaveUp <- hasty.TakeLock(ctx, lockName, nil) }()
	if !receive(r.t, "OnBlocked", told) {
		r.t.Error("OnBlocked(false) came first")
	}
	holder.close()
	eventually(r.t, "the lock to be free", func() bool {
		_, err := watch.Depth(r.ctx(), lockName)
		return errors.Is(err, bus.ErrNoQueue)
	})
	cancel()
	if err := receive(r.t, "TakeLock to give up", gaveUp); !errors.Is(err, context.Canceled) {
		r.t.Errorf("TakeLock gives %v, want context.Canceled", err)
	}
	if len(taken) != 0 {
		r.t.Errorf("TakeLock ended during the alarm: %v", <-taken)
	}
	unblock = false
	r.block(false)
	if err := receive(r.t, "the lock to be taken", taken); err != nil {
		r.t.Errorf("TakeLock: %v", err)
	}
	if receive(r.t, "OnBlocked(false)", told) {
		r.t.Error("OnBlocked(true) came twice")
	}
}

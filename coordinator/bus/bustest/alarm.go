package bustest

import (
	"context"

	"taskbus/coordinator/bus"
)

func alarmCases() []testCase {
	cases := []testCase{
		{name: "publishers are held up and go on", run: alarmHoldsUp},
		{name: "Close does not wait for the alarm's end", run: alarmClose},
	}
	for i := range cases {
		cases[i].needs = func(f Features) bool { return f.Alarms }
		cases[i].without = "cannot raise a memory or disk alarm (Features.Alarms)"
	}
	return cases
}

// openBlocked opens a session, raises the alarm, publishes one message and
// waits until the session has been told. A broker tells only who publishes.
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

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/journal"
	"taskbus/messages"
	"taskbus/schemas"
)

const (
	streamPrefetch = 100
	streamQuiet    = 500 * time.Millisecond // without a message: that was all
	streamMost     = 5 * time.Second        // for reading what there is
)

// received is a message of a stream, and when it came.
type received struct {
	bus.Delivery
	at time.Time
}

// collect reads a stream from a position until it is quiet for a while, or the time is
// up.
func (d *doctor) collect(ctx context.Context, stream string, from bus.Position, quiet, most time.Duration) ([]received, error) {
	came := make(chan received, streamPrefetch)
	err := d.session.Subscribe(ctx, bus.Subscription{
		Queue: stream, Prefetch: streamPrefetch, From: from,
		OnEnded: func(error) {}, // the queue was deleted: nothing comes any more
		Handle: func(m bus.Delivery) {
			d.session.Ack(m.Tag) // in a stream that asks for more, and takes nothing away
			select {
			case came <- received{m, d.app.now()}:
			case <-ctx.Done():
			}
		},
	})
	if err != nil {
		return nil, err
	}
	var all []received
	over, silent := time.NewTimer(most), time.NewTimer(quiet)
	defer over.Stop()
	defer silent.Stop()
	for reading := true; reading; {
		select {
		case m := <-came:
			all = append(all, m)
			silent.Reset(quiet)
		case <-silent.C:
			reading = false
		case <-over.C:
			reading = false
		case <-ctx.Done():
			return all, ctx.Err()
		}
	}
	// What is on its way still must not hold up the end of the consumer.
	done := make(chan error, 1)
	go func() {
		_, err := d.session.Unsubscribe(ctx, stream)
		done <- err
	}()
	for {
		select {
		case <-came:
		case err := <-done:
			return all, err
		}
	}
}

// isStream tells whether a queue is known to be a stream: reading any other would take
// its messages away.
func (d *doctor) isStream(name string) bool {
	t := d.topology()
	i := slices.IndexFunc(t.Queues, func(q bus.Queue) bool { return q.Name == name })
	return i >= 0 && t.Queues[i].Kind == bus.Stream && d.session.Matches(name)
}

// checkStreams reads the end of each stream.
func (d *doctor) checkStreams(ctx context.Context) {
	const check = "streams"
	for _, name := range []string{bus.StreamStatus, bus.StreamResult, bus.StreamJournal} {
		if d.missing[name] {
			continue
		}
		if !d.isStream(name) {
			d.report.add(check, checkSkipped, name+" is not read: it is not known to be a stream, and reading a queue would take its messages away", "")
			continue
		}
		tail, err := d.collect(ctx, name, bus.Last(), streamQuiet, streamMost)
		switch {
		case errors.Is(err, bus.ErrAccess):
			d.report.add(check, checkProblem, name+" cannot be read: "+err.Error(), "grant this user the read permission on it")
		case err != nil:
			d.report.add(check, checkProblem, name+" cannot be read: "+err.Error(), "see the broker's log; a stream without a leader replica comes back when its node does")
		case name == bus.StreamJournal:
			d.judgeJournal(tail)
		case len(tail) == 0:
			d.report.add(check, checkOK, name+" can be read; nothing is in it yet", "")
		default:
			d.report.add(check, checkOK, fmt.Sprintf("%s can be read; it ends at offset %d", name, tail[len(tail)-1].Offset), "")
		}
	}
}

// judgeJournal reads what the newest message of the journal says.
func (d *doctor) judgeJournal(tail []received) {
	const check = "journal"
	if len(tail) == 0 {
		d.report.add(check, checkOK, bus.StreamJournal+" can be read; nothing is in it yet", "")
		return
	}
	last := tail[len(tail)-1]
	h, err := journal.DecodeHeader(last.Body)
	var newer *journal.NewerError
	switch {
	case errors.As(err, &newer):
		d.report.add(check, checkProblem, fmt.Sprintf("offset %d: %v", last.Offset, err), "run the release that wrote it, or a later one: an older coordinator must not go on from here")
		return
	case err != nil:
		d.report.add(check, checkProblem, fmt.Sprintf("offset %d cannot be read: %v", last.Offset, err), "the coordinator names the offset when it starts, and passes over it only on request; keep a copy of the broker's data before that")
		return
	}
	text := fmt.Sprintf("%s ends at offset %d with a message of epoch %d (%s), %s old", bus.StreamJournal, last.Offset, h.Epoch, h.Kind, roughly(last.at.Sub(h.At)))
	if ahead := h.At.Sub(last.at); ahead > clockTolerance {
		d.report.add("clocks", checkWarning, fmt.Sprintf("the newest record of the journal is of %s from now by this machine's clock: its clock, or that of the coordinator that wrote it, is wrong", roughly(ahead)),
			"keep the clocks of both by NTP (timedatectl, chronyc tracking)")
	}
	d.report.add(check, checkOK, text, "")
}

// roughly is a duration for people.
func roughly(d time.Duration) time.Duration {
	if d = d.Abs(); d < 10*time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Second)
}

// checkClocks listens to heartbeats.
func (d *doctor) checkClocks(ctx context.Context) {
	const check = "clocks"
	if d.missing[bus.StreamStatus] || !d.isStream(bus.StreamStatus) || d.listen == 0 {
		d.report.add(check, checkSkipped, "no heartbeats were listened to", "")
		return
	}
	set, err := schemas.Compile()
	if err != nil {
		d.report.add(check, checkProblem, err.Error(), "")
		return
	}
	decoder := messages.NewDecoder(set, messages.Limits{MaxBytes: maxHeartbeat})
	past, err := d.collect(ctx, bus.StreamStatus, bus.Ago(heartbeatsOf), streamQuiet, streamMost)
	if err != nil {
		d.report.add(check, checkProblem, "heartbeats cannot be read: "+err.Error(), "")
		return
	}
	live, err := d.collect(ctx, bus.StreamStatus, bus.Position{}, d.listen, d.listen)
	if err != nil {
		d.report.add(check, checkProblem, "heartbeats cannot be read: "+err.Error(), "")
		return
	}
	seen := make(map[string]sighting)
	for i, m := range append(past, live...) {
		var status messages.AgentStatus
		if plainStatus(&m.Delivery) && decoder.DecodeAgentStatus(m.Body, &status) == nil && !status.Report(m.UserID).Relayed {
			id := string(status.AgentID)
			seen[id] = seen[id].with(m.at.Sub(status.Timestamp), i >= len(past))
		}
	}
	for _, f := range judgeClocks(seen) {
		d.report.add(check, f.State, f.Text, f.Advice)
	}
}

const (
	maxHeartbeat   = 1 << 20 // bytes
	heartbeatsOf   = 2 * time.Minute
	clockTolerance = time.Second
	// clockDelay is how long a heartbeat may be under way.
	clockDelay = 5 * time.Second
	// mostNamed is how many agents are named in one line.
	mostNamed = 8
)

// plainStatus tells a heartbeat from what coordinators write into the same stream.
func plainStatus(m *bus.Delivery) bool { return m.Type == "" || m.Type == schemas.AgentStatus }

// sighting is what the heartbeats of one agent say of its clock.
type sighting struct {
	// least is the smallest time between a heartbeat's timestamp and its arrival here.
	// One that was read from the past may have been there for long: only that its
	// clock is ahead can be seen by it.
	least time.Duration
	live  bool // by a heartbeat that was heard as it came
	any   bool
}

func (s sighting) with(delay time.Duration, live bool) sighting {
	switch {
	case !s.any, live && !s.live:
		// What was heard as it came says more, unless an older one came from the future.
		if s.any && s.least < -clockTolerance && s.least < delay {
			delay = s.least
		}
		return sighting{least: delay, live: live, any: true}
	case live == s.live:
		s.least = min(s.least, delay)
	}
	return s
}

// judgeClocks compares the clocks of agents with this machine's. When most of them differ
// by the same, it is this one that is wrong.
func judgeClocks(seen map[string]sighting) []diagnosis {
	var known []time.Duration // how far each clock is behind this one
	var ahead, behind []string
	for _, id := range sortedKeys(seen) {
		s := seen[id]
		if s.live || s.least < -clockTolerance {
			known = append(known, s.least)
		}
		switch {
		case s.least < -clockTolerance:
			ahead = append(ahead, fmt.Sprintf("%s by %s", id, roughly(s.least)))
		case s.live && s.least > clockDelay:
			behind = append(behind, fmt.Sprintf("%s by %s", id, roughly(s.least)))
		}
	}
	if len(seen) == 0 {
		return []diagnosis{{State: checkSkipped, Text: "no agent has reported within " + heartbeatsOf.String()}}
	}
	if len(known) == 0 {
		return []diagnosis{{State: checkOK, Text: fmt.Sprintf("no heartbeat of %s comes from the future; none was heard as it came (see --listen)", count(len(seen), "agent"))}}
	}
	slices.Sort(known)
	median, spread := known[len(known)/2], known[len(known)-1]-known[0]
	figures := fmt.Sprintf("%s, median %s behind this machine's clock, spread %s", count(len(known), "agent"), median.Round(time.Millisecond), roughly(spread))
	switch wrong := len(ahead) + len(behind); {
	case wrong == 0:
		return []diagnosis{{State: checkOK, Text: figures}}
	case len(known) >= 3 && (2*len(ahead) > len(known) || 2*len(behind) > len(known)):
		return []diagnosis{{State: checkProblem, Text: figures + ": it is probably this machine's clock that is wrong",
			Advice: "set it by NTP (timedatectl, chronyc tracking); if a coordinator runs here, deadlines are judged by it"}}
	}
	var found []diagnosis
	for _, group := range []struct {
		names []string
		how   string
	}{{ahead, "ahead of"}, {behind, "behind"}} {
		if len(group.names) > 0 {
			found = append(found, diagnosis{State: checkWarning, Text: fmt.Sprintf("%s; %s it: %s", figures, group.how, joinSome(group.names)),
				Advice: "set the clocks of these agents by NTP; Taskbus allows for them, as long as they do not jump"})
		}
	}
	return found
}

// joinSome names the first few, and how many more there are.
func joinSome(names []string) string {
	text := ""
	for i, n := range names {
		switch {
		case i == mostNamed:
			return fmt.Sprintf("%s, and %d more", text, len(names)-i)
		case i > 0:
			text += ", "
		}
		text += n
	}
	return text
}

package setup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/journal"
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
func (d *doctor) collect(
	ctx context.Context, stream string, from bus.Position, quiet, most time.Duration,
) ([]received, error) {
	came := make(chan received, streamPrefetch)
	err := d.session.Subscribe(ctx, bus.Subscription{
		Queue: stream, Prefetch: streamPrefetch, From: from,
		OnEnded: func(error) {}, // the queue was deleted: nothing comes any more
		Handle: func(m bus.Delivery) {
			d.session.Ack(m.Tag) // in a stream that asks for more, and takes nothing away
			select {
			case came <- received{m, d.app.Now()}:
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

// isStream reports whether a queue is known to be a stream: reading any other would take
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
			d.report.add(check, checkSkipped,
				name+" is not read: it is not known to be a stream, and reading a queue would take its messages away",
				"")
			continue
		}
		tail, err := d.collect(ctx, name, bus.Last(), streamQuiet, streamMost)
		switch {
		case errors.Is(err, bus.ErrAccess):
			d.report.add(check, checkProblem, name+" cannot be read: "+err.Error(),
				"grant this user the read permission on it")
		case err != nil:
			d.report.add(check, checkProblem, name+" cannot be read: "+err.Error(),
				"see the broker's log; a stream without a leader replica comes back when its node does")
		case name == bus.StreamJournal:
			d.judgeJournal(tail)
		case len(tail) == 0:
			d.report.add(check, checkOK, name+" can be read; nothing is in it yet", "")
		default:
			d.report.add(check, checkOK, fmt.Sprintf("%s can be read; it ends at offset %d", name,
				tail[len(tail)-1].Offset), "")
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
	var other *journal.VersionError
	switch {
	case errors.As(err, &other) && other.Older():
		d.report.add(check, checkProblem, fmt.Sprintf("offset %d: %v", last.Offset, err),
			"run the release that wrote it until nothing runs any more, then begin with an empty journal")
		return
	case errors.As(err, &other):
		d.report.add(check, checkProblem, fmt.Sprintf("offset %d: %v", last.Offset, err),
			"run the release that wrote it, or a later one: an older coordinator must not go on from here")
		return
	case err != nil:
		d.report.add(check, checkProblem, fmt.Sprintf("offset %d cannot be read: %v", last.Offset, err),
			"the coordinator names the offset when it starts, and passes over it only on request; keep a copy of the "+
				"broker's data before that")
		return
	}
	text := fmt.Sprintf("%s ends at offset %d with a message of epoch %d (%s), %s old", bus.StreamJournal, last.Offset,
		h.Epoch, h.Kind, roughly(last.at.Sub(h.At)))
	if ahead := h.At.Sub(last.at); ahead > clockTolerance {
		d.report.add("clocks", checkWarning,
			fmt.Sprintf(
				"the newest record of the journal is of %s from now by this machine's clock: its clock, or that "+
					"of the coordinator that wrote it, is wrong", roughly(ahead)),
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

package setup

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/bus"
	"taskbus/messages"
	"taskbus/schemas"
)

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
	if len(live) > 0 {
		d.checkBrokerClock(ctx, live[len(live)-1])
	}
	seen := make(map[string]sighting)
	for i, m := range append(past, live...) {
		var status messages.AgentStatus
		if plainStatus(&m.Delivery) && decoder.DecodeAgentStatus(m.Body, &status) == nil &&
			!status.Report(m.UserID).Relayed {
			id := string(status.AgentID)
			seen[id] = seen[id].with(m.at.Sub(status.Timestamp), i >= len(past))
		}
	}
	for _, f := range judgeClocks(seen) {
		d.report.add(check, f.State, f.Text, f.Advice)
	}
}

// checkBrokerClock compares the broker's clock with this machine's, by what was heard as it came.
func (d *doctor) checkBrokerClock(ctx context.Context, last received) {
	const check = "clocks"
	offset, ok, err := bus.ClockOffset(last.at, brokerTolerance, func(t time.Time) (bool, error) {
		first, found, err := d.firstStored(ctx, bus.Since(t))
		return found && first <= last.Offset, err
	})
	switch {
	case err != nil || !ok:
		d.report.add(check, checkSkipped, "the broker's clock could not be read", "")
	case offset == 0:
		d.report.add(check, checkOK, "the broker's clock agrees with this machine's", "")
	default:
		where, state := "ahead of", checkWarning
		if offset < 0 {
			where = "behind"
		}
		if offset.Abs() >= brokerFarOff {
			state = checkProblem
		}
		d.report.add(check, state,
			fmt.Sprintf("the broker's clock is about %s %s this machine's", roughly(offset), where),
			fmt.Sprintf("set both by NTP (timedatectl, chronyc tracking): a coordinator that is more than %v off the "+
				"broker does not lead, unless most agents agree with it", brokerFarOff))
	}
}

// firstStored is the offset of the first message in agent.status from a position on; found is false when
// none comes in time.
func (d *doctor) firstStored(ctx context.Context, from bus.Position) (offset int64, found bool, err error) {
	came := make(chan int64, 1)
	err = d.session.Subscribe(ctx, bus.Subscription{
		Queue: bus.StreamStatus, Prefetch: 1, From: from,
		OnEnded: func(error) {}, // the queue was deleted: nothing comes any more
		Handle: func(m bus.Delivery) {
			select {
			case came <- m.Offset:
			default:
			}
		},
	})
	if err != nil {
		return 0, false, err
	}
	timeout := time.NewTimer(brokerAnswers)
	defer timeout.Stop()
	select {
	case offset = <-came:
		found = true
	case <-timeout.C:
	case <-ctx.Done():
		return 0, false, ctx.Err()
	}
	_, err = d.session.Unsubscribe(ctx, bus.StreamStatus)
	return offset, found, err
}

const (
	// brokerTolerance is more than the second to which the broker's clock can be read.
	brokerTolerance = 2 * time.Second
	// brokerFarOff is how far a coordinator's clock may be off the broker's.
	brokerFarOff = 10 * time.Minute
	// brokerAnswers is how long the first message from a position on may take.
	brokerAnswers = time.Second
)

const (
	maxHeartbeat   = 1 << 20 // bytes
	heartbeatsOf   = 2 * time.Minute
	clockTolerance = time.Second
	// clockDelay is how long a heartbeat may be under way.
	clockDelay = 5 * time.Second
	// mostNamed is how many agents are named in one line.
	mostNamed = 8
)

// plainStatus distinguishes a heartbeat from what coordinators write into the same stream.
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
	for _, id := range slices.Sorted(maps.Keys(seen)) {
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
		return []diagnosis{{State: checkOK,
			Text: fmt.Sprintf("no heartbeat of %s comes from the future; none was heard as it came (see --listen), "+
				"so that the broker's clock was not compared", cli.Count(len(seen), "agent"))}}
	}
	slices.Sort(known)
	median, spread := known[len(known)/2], known[len(known)-1]-known[0]
	figures := fmt.Sprintf("%s, median %s behind this machine's clock, spread %s", cli.Count(len(known), "agent"),
		median.Round(time.Millisecond), roughly(spread))
	switch wrong := len(ahead) + len(behind); {
	case wrong == 0:
		return []diagnosis{{State: checkOK, Text: figures}}
	case len(known) >= 3 && (2*len(ahead) > len(known) || 2*len(behind) > len(known)):
		return []diagnosis{{State: checkProblem, Text: figures + ": it is probably this machine's clock that is wrong",
			Advice: "set it by NTP (timedatectl, chronyc tracking); if a coordinator runs here, deadlines are judged " +
				"by it"}}
	}
	var found []diagnosis
	for _, group := range []struct {
		names []string
		how   string
	}{{ahead, "ahead of"}, {behind, "behind"}} {
		if len(group.names) > 0 {
			found = append(found, diagnosis{State: checkWarning, Text: fmt.Sprintf("%s; %s it: %s", figures, group.how,
				joinSome(group.names)),
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

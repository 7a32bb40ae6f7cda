package setup

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/bus"
)

// alarmTime is how long the broker may take to say whether it takes publications.
const alarmTime = 5 * time.Second

// checkAlarms finds out whether the broker holds up publishers, before anything else is asked of it: in
// an alarm of its memory or disk it answers nothing to a connection that has published, and what follows
// from that looks like other faults. A message to a queue that does not exist comes back at once. In an
// alarm RabbitMQ takes the first of a connection and blocks it then, so that only the second shows it.
func (d *doctor) checkAlarms(ctx context.Context) {
	const check = "alarms"
	blocked := make(chan string, 1)
	answer, err := d.publishNowhere(ctx, bus.Properties{}, blocked)
	if err != nil {
		d.report.add(check, checkSkipped, err.Error(), "")
		return
	}
	defer answer.end(ctx)
	late := time.NewTimer(alarmTime)
	defer late.Stop()
	for answers := 0; ; {
		select {
		case reason := <-blocked:
			d.blocked = true
			d.report.add(check, checkProblem,
				"the broker is short of memory or disk, and takes nothing from publishers: "+
					cmp.Or(reason, "it does not say of which"),
				"give it what it lacks: rabbitmqctl status names the alarm and its limit; until then nothing is "+
					"assigned, and publishers wait")
			return
		case <-answer.outcome:
			if answers++; answers == 1 && answer.again() == nil {
				continue
			}
			d.report.add(check, checkOK, "the broker takes publications: no alarm of its memory or disk", "")
			return
		case <-answer.session.Done():
			d.report.add(check, checkSkipped, fmt.Sprintf("a publication ended the session: %v", answer.session.Err()),
				"")
			return
		case <-late.C:
			d.report.add(check, checkWarning, fmt.Sprintf("the broker has not answered a publication within %v",
				alarmTime), "see its log, and rabbitmqctl status")
			return
		case <-ctx.Done():
			d.report.add(check, checkSkipped, ctx.Err().Error(), "")
			return
		}
	}
}

// held reports whether a check has to be left out because it publishes and the broker takes nothing.
func (d *doctor) held(check string) bool {
	if d.blocked {
		d.report.add(check, checkSkipped, "not looked at, because the broker takes nothing from publishers", "")
	}
	return d.blocked
}

// nowhere is a session for messages to a queue that does not exist.
type nowhere struct {
	session bus.Session
	message bus.Publication
	outcome <-chan bus.Outcome
}

// again sends the message once more.
func (n *nowhere) again() error { return n.session.Publish(n.message) }

// publishNowhere sends a message that the broker returns, in a session of its own. blocked, if it is not
// nil, hears that the broker holds up publishers.
func (d *doctor) publishNowhere(ctx context.Context, p bus.Properties, blocked chan<- string) (*nowhere, error) {
	outcome := make(chan bus.Outcome, 2)
	s, err := d.app.OpenQuietBus(d.env).Open(ctx, bus.SessionSpec{
		// at most two
		Name: cli.SessionName("doctor"), Topology: bus.Topology{Mode: bus.Off},
		OnSettled: func(_ uint64, o bus.Outcome) { outcome <- o },
		OnBlocked: func(on bool, reason string) {
			if on && blocked != nil {
				select {
				case blocked <- reason:
				default:
				}
			}
		},
	})
	if err != nil {
		return nil, err
	}
	n := &nowhere{s, bus.Publication{Key: "taskbus.nowhere." + rand.Text(), Properties: p}, outcome}
	if err := n.again(); err != nil {
		n.end(ctx)
		return nil, err
	}
	return n, nil
}

// goodbyeTime is how long a session that was opened to ask one thing may take to end.
const goodbyeTime = time.Second

func (n *nowhere) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbyeTime)
	defer cancel()
	_ = n.session.Close(ctx) // nothing depends on a goodbye
}

package setup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"taskbus/cmd/taskbus/cli"
	"taskbus/config"
	"taskbus/coordinator/bus"
)

// release is a version of RabbitMQ.
type release struct{ major, minor, patch int }

// parseRelease reads "3.10.8", and "4.1.0-beta.2" as 4.1.0; false when it is neither.
func parseRelease(text string) (r release, ok bool) {
	text, _, _ = strings.Cut(text, "-")
	text, _, _ = strings.Cut(text, "+")
	parts := strings.Split(text, ".")
	if len(parts) < 2 || len(parts) > 3 {
		return r, false
	}
	for i, into := range []*int{&r.major, &r.minor, &r.patch}[:len(parts)] {
		n, err := strconv.Atoi(parts[i])
		if err != nil || n < 0 {
			return r, false
		}
		*into = n
	}
	return r, true
}

func (r release) before(major, minor, patch int) bool {
	return slices.Compare([]int{r.major, r.minor, r.patch}, []int{major, minor, patch}) < 0
}

// defaultConsumerTimeout is RabbitMQ's own (30 minutes since 3.8.17).
const defaultConsumerTimeout = 30 * time.Minute

// judgeVersion says what this broker lacks. What cannot be asked over AMQP (feature
// flags, consumer_timeout) is judged by the version as far as that goes.
func (d *doctor) judgeVersion(b bus.Broker) {
	const check = "version"
	name := strings.TrimSpace(b.Product + " " + b.Version)
	if b.ClusterName != "" {
		name += ", cluster " + b.ClusterName
	}
	r, known := parseRelease(b.Version)
	switch {
	case b.Product != "RabbitMQ" || !known:
		d.report.add(check, checkWarning,
			fmt.Sprintf("the broker says that it is %q: what Taskbus needs of it is not known", name),
			"Taskbus is made for RabbitMQ 3.10 and later (quorum queues, streams, exclusive queues, publisher "+
				"confirms)")
		return
	case r.before(3, 9, 0):
		d.report.add(check, checkProblem, name+" has no streams",
			"upgrade to RabbitMQ 3.10 or later, or use queues: classic without the journal")
		return
	case r.before(3, 10, 0):
		d.report.add(check, checkProblem,
			name+" cannot dead-letter from quorum queues at least once, nor let their messages expire",
			"upgrade to RabbitMQ 3.10 or later")
		return
	case r.major == 4 && (r == release{4, 2, 6} || r == release{4, 3, 0}) && d.cfg != nil &&
		d.cfg.Topology != config.TopologyDeclare:
		d.report.add(check, checkWarning, name+" wants the configure permission even for a look at a queue",
			"upgrade by one patch release, or grant configure to the coordinator's user")
	case r.major >= 4:
		d.report.add(check, checkOK, name+" (Taskbus is tested with 3.10; it uses nothing that 4.x has taken away)", "")
	default:
		d.report.add(check, checkOK, name, "")
	}
	d.judgeConsumerTimeout(r)
}

// judgeConsumerTimeout compares for how long agents may work with for how long this
// release lets them hold a message. The broker's own setting cannot be asked for over
// AMQP.
func (d *doctor) judgeConsumerTimeout(r release) {
	const check = "long tasks"
	if d.cfg == nil {
		return
	}
	most := d.cfg.Policy().Settings.MaxTimeout
	switch {
	case !r.before(3, 11, 15) && d.cfg.Queues == config.QueuesQuorum:
		d.report.add(check, checkOK,
			fmt.Sprintf("agents may work for %s; their queues let them hold a message for 24 h", most), "")
	case d.cfg.BrokerConsumerTimeout > defaultConsumerTimeout:
		d.report.add(check, checkWarning, fmt.Sprintf(
			"agents may work for %s, which counts on the broker's consumer_timeout being %s "+
				"(broker_consumer_timeout_seconds); it is 30 min unless it is configured otherwise, and cannot be "+
				"seen from here", most, d.cfg.BrokerConsumerTimeout),
			"compare: rabbitmqctl eval 'application:get_env(rabbit, consumer_timeout).' (milliseconds)")
	default:
		d.report.add(check, checkOK, fmt.Sprintf(
			"agents may work for %s, less than the broker's consumer_timeout unless that was lowered", most), "")
	}
}

// checkTopology looks at every queue, stream and exchange.
func (d *doctor) checkTopology(ctx context.Context) {
	const check = "topology"
	t := d.topology()
	var absent []string
	odd, there := 0, 0
	for _, x := range t.Exchanges {
		switch text, err := d.lookAtExchange(ctx, x); {
		case err != nil:
			d.report.add(check, checkProblem, err.Error(), "")
			return
		case text == absentObject:
			absent = append(absent, x.Name)
		case text != "":
			odd++
			d.report.add(check, checkWarning, x.Name+" "+text,
				"delete it when it is not in use; the coordinator declares it anew")
		default:
			there++
		}
	}
	for _, q := range t.Queues {
		exists, err := d.session.EnsureQueue(ctx, q)
		switch {
		case err != nil:
			d.report.add(check, checkProblem, err.Error(), "")
			return
		case !exists:
			absent = append(absent, q.Name)
		default:
			there++
		}
	}
	for _, name := range absent {
		d.missing[name] = true
	}
	var unseen []string
	for _, f := range d.session.Findings() {
		odd++
		there--
		if strings.Contains(f.Text, "cannot be verified") {
			unseen = append(unseen, f.Object)
			continue
		}
		state := checkWarning
		if i := slices.IndexFunc(t.Queues, func(q bus.Queue) bool { return q.Name == f.Object }); i >= 0 &&
			t.Queues[i].Kind == bus.Stream {
			state = checkProblem
		}
		d.report.add(check, state, f.Object+" "+f.Text,
			"to have it right: stop what uses it, empty it, delete it (rabbitmqctl delete_queue), and let `taskbus "+
				"topology apply` declare it")
	}
	if len(unseen) > 0 {
		d.report.add(check, checkWarning,
			fmt.Sprintf(
				"whether they are what they should be cannot be seen without the configure permission: %s; tasks "+
					"get no expiration in queues of which that is not known", cli.List(unseen, 6)),
			"grant it on them, or trust their declarations")
	}
	if there > 0 || odd == 0 && len(absent) == 0 {
		d.report.add(check, checkOK, fmt.Sprintf("%s (queues, streams, exchanges) there as they should be",
			cli.Count(there, "object")), "")
	}
	d.reportAbsent(absent)
}

// reportAbsent says what is missing: a matter of course before the first start of a
// coordinator that may declare.
func (d *doctor) reportAbsent(absent []string) {
	if len(absent) == 0 {
		return
	}
	text := fmt.Sprintf("missing: %s", cli.List(absent, 12))
	if d.cfg == nil || d.cfg.Topology == config.TopologyDeclare {
		d.report.add("topology", checkWarning, text,
			"a coordinator creates them when it starts (topology: declare); or `taskbus topology apply`")
		return
	}
	d.report.add("topology", checkProblem, text,
		fmt.Sprintf("create them with `taskbus topology apply`: with topology: %s the coordinator does not",
			d.cfg.Topology))
}

// absentObject is the answer for what does not exist.
const absentObject = "does not exist"

// lookAtExchange says what is wrong with an exchange; empty: nothing. It takes sessions
// of its own, because it is only when one is opened that exchanges are looked at. The
// broker compares the kind in a declaration only: directly after a look that has found
// the exchange it creates nothing.
func (d *doctor) lookAtExchange(ctx context.Context, x bus.Exchange) (wrong string, err error) {
	for _, mode := range []bus.Mode{bus.Verify, bus.Declare} {
		s, err := d.app.OpenQuietBus(d.env).Open(ctx, bus.SessionSpec{
			Name: cli.SessionName("doctor"), Topology: bus.Topology{Mode: mode, Exchanges: []bus.Exchange{x}},
		})
		var missing *bus.TopologyError
		switch {
		case errors.As(err, &missing):
			return absentObject, nil
		case errors.Is(err, bus.ErrAccess) && mode == bus.Declare:
			return "", nil // of the permission that lacks, another check reports
		case err != nil:
			return "", err
		}
		findings := s.Findings()
		_ = s.Close(ctx) // nothing depends on a goodbye
		if len(findings) > 0 {
			return findings[0].Text, nil
		}
	}
	return "", nil
}

// checkLock reports whether a coordinator leads.
func (d *doctor) checkLock(ctx context.Context) {
	const check = "leader"
	_, err := d.session.Depth(ctx, bus.QueueLeader)
	switch {
	case errors.Is(err, bus.ErrInUse):
		d.led = true
		d.report.add(check, checkOK, "a coordinator holds the lock "+bus.QueueLeader, "")
	case errors.Is(err, bus.ErrNoQueue):
		d.report.add(check, checkWarning, "no coordinator leads: the lock "+bus.QueueLeader+" is free",
			"start one: taskbus serve")
	case err == nil:
		d.report.add(check, checkProblem,
			bus.QueueLeader+" exists as an ordinary queue: it is the lock, which cannot be taken like this",
			"delete it: rabbitmqctl delete_queue -p "+cli.VirtualHost(d.env.RabbitMQURL)+" "+bus.QueueLeader)
	default:
		d.report.add(check, checkSkipped, err.Error(), "")
	}
}

// failedMany is when assignment.failed is near its limit of 1,000,000.
const failedMany = 800_000

// checkQueues looks for what waits to be looked at, or to be taken.
func (d *doctor) checkQueues(ctx context.Context) {
	quiet := true // everything was looked at, and nothing found
	depth := func(name string) bus.Depth {
		if d.missing[name] {
			return bus.Depth{}
		}
		found, err := d.session.Depth(ctx, name)
		if err != nil && !errors.Is(err, bus.ErrNoQueue) {
			quiet = false
			d.report.add("queues", checkSkipped, err.Error(), "")
		}
		return found
	}
	warn := func(state, text, advice string) {
		quiet = false
		d.report.add("queues", state, text, advice)
	}
	if n := depth(bus.QueueDead).Ready; n > 0 {
		warn(checkWarning, fmt.Sprintf("%s in %s: what could not be understood or kept failing",
			cli.Count(n, "message"), bus.QueueDead),
			"`taskbus dead ls` says which and why; mend the cause, then `taskbus dead resend` or `taskbus dead drop`")
	}
	if n := depth(bus.QueueFailed).Ready; n > failedMany {
		warn(checkWarning, fmt.Sprintf("%d messages in %s, which drops its oldest beyond 1,000,000", n,
			bus.QueueFailed), "consume it, or purge what is not needed")
	}
	for _, name := range []string{bus.QueueAssign, bus.QueueAssignHigh, bus.QueueReassign} {
		if q := depth(name); q.Ready > 0 && q.Consumers == 0 {
			warn(checkWarning, fmt.Sprintf("%s in %s, without a consumer", cli.Count(q.Ready, "message"), name),
				"start a coordinator: taskbus serve")
		}
	}
	if quiet {
		d.report.add("queues", checkOK, "nothing waits in task.dead, nor for want of a coordinator", "")
	}
}

package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"taskbus/cmd/taskbus/cli"
	"taskbus/config"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/bus/amqpbus"
)

// prober is a bus that can find out what its user may do.
type prober interface {
	Probe(ctx context.Context, name string, want []amqpbus.Access) ([]amqpbus.Grant, error)
}

// mostAgentQueues are asked about: what holds for so many holds for all, as a rule, and
// each question leaves a line in the broker's log.
const mostAgentQueues = 10

// neededAccess lists what the coordinator's user must be allowed to do.
func (d *doctor) neededAccess() (list []amqpbus.Access) {
	t := d.topology()
	agents := 0
	for _, q := range t.Queues {
		if _, own := bus.OwnQueue(bus.ProfileQuorum, q.Name); !own {
			if agents++; agents > mostAgentQueues {
				continue
			}
		}
		if q.Name != bus.QueueFailed && q.Name != bus.QueueDead && !d.missing[q.Name] {
			list = append(list, amqpbus.Access{Permission: amqpbus.Read, Object: q.Name})
		}
		if d.mayDeclare() {
			list = append(list, amqpbus.Access{Permission: amqpbus.Configure, Object: q.Name})
		}
	}
	for _, x := range t.Exchanges {
		if d.mayDeclare() {
			list = append(list, amqpbus.Access{Permission: amqpbus.Configure, Exchange: true, Object: x.Name})
		}
		if !bus.Inwards(x.Name) && !d.missing[x.Name] {
			list = append(list, amqpbus.Access{Permission: amqpbus.Write, Exchange: true, Object: x.Name})
		}
	}
	return append(list,
		amqpbus.Access{Permission: amqpbus.Write, Exchange: true}, // tasks go to queues by their name
		amqpbus.Access{Permission: amqpbus.Configure, Object: bus.QueueLeader},
		amqpbus.Access{Permission: amqpbus.Read, Object: bus.QueueLeader})
}

func (d *doctor) mayDeclare() bool { return d.cfg == nil || d.cfg.Topology == config.TopologyDeclare }

// checkPermissions asks for each of them.
func (d *doctor) checkPermissions(ctx context.Context) {
	const check = "permissions"
	if d.held(check) {
		return
	}
	p, able := d.app.OpenQuietBus(d.env).(prober)
	if !able {
		d.report.add(check, checkSkipped, "this transport cannot be asked", "")
		return
	}
	want := d.neededAccess()
	got, err := p.Probe(ctx, cli.SessionName("doctor"), want)
	if err != nil {
		d.report.add(check, checkProblem, err.Error(), "")
		return
	}
	denied := make(map[amqpbus.Permission][]string)
	granted := 0
	for i, a := range want {
		switch got[i] {
		case amqpbus.Granted:
			granted++
		case amqpbus.Denied:
			name := a.Object
			if name == "" {
				name = "amq.default"
			}
			denied[a.Permission] = append(denied[a.Permission], name)
		}
	}
	var parts []string
	for _, permission := range []amqpbus.Permission{amqpbus.Configure, amqpbus.Write, amqpbus.Read} {
		if names := denied[permission]; len(names) > 0 {
			parts = append(parts, fmt.Sprintf("%s on %s", permission, cli.List(names, 6)))
		}
	}
	user := d.session.User()
	if len(parts) == 0 {
		d.report.add(check, checkOK, fmt.Sprintf("user %s has the %d permissions that were asked for", user, granted),
			"")
		return
	}
	d.report.add(check, checkProblem, fmt.Sprintf("user %s lacks %s", user, strings.Join(parts, "; ")), fmt.Sprintf(
		`grant them, for instance: rabbitmqctl set_permissions -p %s %s '%s' '%s' '%s'`,
		cli.VirtualHost(d.env.RabbitMQURL), cmp.Or(user, unknownUser), d.pattern(d.mayDeclare()),
		pattern+`|^amq\.default$`, pattern))
}

// pattern matches Taskbus's own objects and the usual queues of agents.
const pattern = `^(task\.|agent\.|assignment\.|coordinator\.|taskbus).*`

func (d *doctor) pattern(declare bool) string {
	if declare {
		return pattern
	}
	return `^coordinator\.leader$`
}

// checkIdentity finds out whether the broker takes our user_id, by which agents know the sender of
// a dispatch: with a message to a queue that does not exist, which comes back.
func (d *doctor) checkIdentity(ctx context.Context) {
	const check = "user_id"
	user := d.session.User()
	if user == "" || d.cfg != nil && d.cfg.Auth == config.AuthOff {
		return
	}
	if d.held(check) {
		return
	}
	answer, err := d.publishNowhere(ctx, bus.Properties{UserID: user}, nil)
	if err != nil {
		d.report.add(check, checkSkipped, err.Error(), "")
		return
	}
	defer answer.end(ctx)
	s := answer.session
	select {
	case o := <-answer.outcome:
		if o == bus.Unroutable {
			d.report.add(check, checkOK, "the broker takes messages with user_id "+user, "")
			return
		}
	case <-ctx.Done():
	}
	<-orAfter(s.Done(), requestTime)
	if errors.Is(s.Err(), bus.ErrAccess) {
		return // which the permissions have reported
	}
	d.report.add(check, checkProblem, fmt.Sprintf("the broker does not take messages with user_id %s: %v", user,
		s.Err()), "log in under the name that the broker knows the user by, or set agents.auth: off")
}

// orAfter is done, or closed after a while.
func orAfter(done <-chan struct{}, d time.Duration) <-chan struct{} {
	either := make(chan struct{})
	go func() {
		defer close(either)
		select {
		case <-done:
		case <-time.After(d):
		}
	}()
	return either
}

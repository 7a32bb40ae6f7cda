package amqpbus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/bus/amqpbus/internal/wire"
)

// link is one AMQP connection and the wire it runs over.
type link struct {
	target  *target
	role    string // "publish", "consume" or "look"
	conn    *amqp.Connection
	wire    *wire.Wire
	closes  chan *amqp.Error // closed when the connection is
	request time.Duration
}

// blockedFunc hears that the broker holds publishers up or goes on.
type blockedFunc func(blocked bool, reason string)

// dial connects. onBlocked is called from a goroutine of the link's own.
func (b *Bus) dial(ctx context.Context, t *target, role, session string, onBlocked blockedFunc) (*link, error) {
	doing := fmt.Sprintf("open the %s connection to %s", role, t)
	w, err := b.dialWire(ctx, t)
	if err != nil {
		return nil, explain(t, doing, err)
	}
	stop := context.AfterFunc(ctx, func() { w.Kill(ctx.Err()) })
	defer stop()
	conn, err := amqp.Open(w.Guard(b.headersDropped(role)), amqp.Config{
		SASL:      t.sasl(),
		Vhost:     t.vhost,
		Heartbeat: cmp.Or(t.heartbeat, b.cfg.Heartbeat),
		FrameSize: bus.FrameMax,
		Locale:    "en_US",
		Properties: amqp.Table{
			"product": "taskbus", "platform": "golang",
			"connection_name": connectionName(session, role),
		},
	})
	if err != nil {
		cause := w.Cause()
		w.Kill(err)
		return nil, explain(t, doing, handshakeFault(err, cause))
	}
	l := &link{target: t, role: role, conn: conn, wire: w, request: b.cfg.RequestTimeout}
	l.closes = conn.NotifyClose(make(chan *amqp.Error, 1))
	// The heartbeat that was agreed on may be the broker's shorter one.
	if beat := conn.Config.Heartbeat; beat > 0 {
		err = w.Watch(beat + beat/2)
	} else {
		err = w.Deadline(time.Time{})
	}
	if err != nil {
		l.cut(err)
		return nil, explain(t, doing, err)
	}
	go func() {
		for blocking := range conn.NotifyBlocked(make(chan amqp.Blocking, 16)) {
			w.Hold(blocking.Active)
			onBlocked(blocking.Active, blocking.Reason)
		}
	}()
	return l, nil
}

// headersDropped logs, once for each connection, that a message lost its headers.
func (b *Bus) headersDropped(role string) func() {
	told := false
	return func() {
		if !told {
			told = true
			b.cfg.Logger.Warn().Str("connection", role).Msg(
				"a message came with headers beyond what an AMQP client reads (32 levels, 8,192 elements, the types of AMQP " +
					"0-9-1); it is taken without its headers (said once for each connection)")
		}
	}
}

// handshakeFault sorts out the library's guess. RabbitMQ answers a wrong password
// by closing the connection without a word, and the library takes whatever
// ends the connection at that moment for a wrong password.
func handshakeFault(err, cause error) error {
	var reply *amqp.Error
	if !errors.As(err, &reply) || reply.Server || cause == nil {
		return err
	}
	closedByBroker := errors.Is(cause, io.EOF) || errors.Is(cause, syscall.ECONNRESET)
	if reply.Code == amqp.AccessRefused && closedByBroker {
		return bus.ErrLogin
	}
	return cause
}

// connectionName is "taskbus/publish@host#pid" for a session "taskbus@host": it
// is what operators see in rabbitmqctl list_connections.
func connectionName(session, role string) string {
	name, host, _ := strings.Cut(session, "@")
	full := fmt.Sprintf("%s/%s@%s#%d", name, role, host, os.Getpid())
	return full[:min(len(full), bus.ShortString)]
}

// within runs a request to the broker under the request time limit. When it is
// over the connection is cut: the library offers no other way out of a request.
// While the broker holds publishers up it answers nothing, and that is no fault.
// A refusal by the broker comes back as *amqp.Error.
func (l *link) within(doing string, request func() error) error {
	return l.withinTime(l.request, doing, request)
}

// withinTime is within with a time limit of its own.
func (l *link) withinTime(limit time.Duration, doing string, request func() error) error {
	answered := make(chan struct{})
	timer := time.AfterFunc(limit, func() {
		for l.wire.Held() {
			select {
			case <-answered:
			case <-time.After(limit):
			}
		}
		select {
		case <-answered:
		default:
			l.wire.Kill(fmt.Errorf("no answer within %s (%s)", limit, doing))
		}
	})
	defer timer.Stop()
	err := request()
	close(answered)
	if err == nil {
		return nil
	}
	if refused := new(amqp.Error); errors.As(err, &refused) && refused.Server {
		return err
	}
	if cause := l.wire.Cause(); cause != nil {
		err = cause
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// channel opens a channel.
func (l *link) channel() (*amqp.Channel, error) {
	var ch *amqp.Channel
	err := l.within("open a channel", func() (err error) {
		ch, err = l.conn.Channel()
		return err
	})
	return ch, err
}

// fault says why the connection ended, given what closes delivered (nil: nothing).
func (l *link) fault(reply *amqp.Error) error {
	doing := "the " + l.role + " connection to " + l.target.addr + " was lost"
	if reply != nil && reply.Server {
		return explain(l.target, doing, reply)
	}
	if cause := l.wire.Cause(); cause != nil {
		return explain(l.target, doing, cause)
	}
	if reply != nil {
		return explain(l.target, doing, reply)
	}
	return errors.New(doing)
}

// cut ends the connection without a goodbye.
func (l *link) cut(reason error) {
	l.wire.Kill(reason)
	// The library notices by its reader; this makes it clean up if it did not.
	_ = l.conn.Close()
}

// cutWith cuts the connection when ctx ends, until stop is called.
func (l *link) cutWith(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() { l.wire.Kill(ctx.Err()) })
}

// close says goodbye until by, then cuts.
func (l *link) close(by time.Time) {
	if err := l.wire.Part(by); err != nil {
		l.wire.Kill(err)
	}
	late := time.AfterFunc(time.Until(by), func() { l.wire.Kill(context.DeadlineExceeded) })
	defer late.Stop()
	// An error means that the connection is closed already, or was cut above.
	_ = l.conn.Close()
}

// accessFor adds to a 403 which permission is missing, on what.
func accessFor(t *target, doing, permission, object string, reply *amqp.Error) error {
	return fmt.Errorf("%w: %s: broker answered %d %s; it needs the %s permission on %s (rabbitmqctl set_permissions)",
		bus.ErrAccess, doing, reply.Code, t.scrub(reply.Reason), permission, object)
}

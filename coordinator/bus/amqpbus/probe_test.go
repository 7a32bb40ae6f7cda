package amqpbus_test

import (
	"errors"
	"testing"

	"github.com/rs/zerolog"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/bus/amqpbus"
	"taskbus/tests/support/brokertest"
)

// TestProbe: what a user may do is found out for every kind of object, whether it is
// there or not, and nothing has been done afterwards.
func TestProbe(t *testing.T) {
	t.Parallel()
	owner := brokertest.Vhost(t)
	for name, kind := range map[string]string{"mine.quorum": "quorum", "mine.stream": "stream", "mine.classic": "classic",
		"theirs": "quorum"} {
		owner.DeclareQueue(t, name, map[string]any{"x-queue-type": kind})
	}
	owner.DeclareExchange(t, "mine.exchange", "topic")
	owner.DeclareExchange(t, "theirs.exchange", "direct")
	user := owner.AddUser(t, "probed-"+owner.VHost)
	owner.SetPermissions(t, "probed-"+owner.VHost, `^mine\.`, `^(mine\.|amq\.default$)`, `^mine\.`)

	const c, w, r = amqpbus.Configure, amqpbus.Write, amqpbus.Read
	for _, tc := range []struct {
		amqpbus.Access
		want amqpbus.Grant
	}{
		{amqpbus.Access{Permission: r, Object: "mine.quorum"}, amqpbus.Granted},
		{amqpbus.Access{Permission: r, Object: "mine.classic"}, amqpbus.Granted},
		{amqpbus.Access{Permission: r, Object: "mine.stream"}, amqpbus.Granted},
		{amqpbus.Access{Permission: r, Object: "mine.missing"}, amqpbus.Missing},
		{amqpbus.Access{Permission: r, Object: "theirs"}, amqpbus.Denied},
		{amqpbus.Access{Permission: r, Object: "theirs.missing"}, amqpbus.Denied},
		{amqpbus.Access{Permission: c, Object: "mine.quorum"}, amqpbus.Granted},
		{amqpbus.Access{Permission: c, Object: "mine.classic"}, amqpbus.Granted},
		{amqpbus.Access{Permission: c, Object: "mine.stream"}, amqpbus.Granted},
		{amqpbus.Access{Permission: c, Object: "mine.missing"}, amqpbus.Granted},
		{amqpbus.Access{Permission: c, Object: "theirs"}, amqpbus.Denied},
		{amqpbus.Access{Permission: c, Object: "theirs.missing"}, amqpbus.Denied},
		{amqpbus.Access{Permission: c, Exchange: true, Object: "mine.exchange"}, amqpbus.Granted},
		{amqpbus.Access{Permission: c, Exchange: true, Object: "mine.missing"}, amqpbus.Granted},
		{amqpbus.Access{Permission: c, Exchange: true, Object: "theirs.exchange"}, amqpbus.Denied},
		{amqpbus.Access{Permission: w, Exchange: true, Object: "mine.exchange"}, amqpbus.Granted},
		{amqpbus.Access{Permission: w, Exchange: true, Object: "mine.missing"}, amqpbus.Missing},
		{amqpbus.Access{Permission: w, Exchange: true, Object: "theirs.exchange"}, amqpbus.Denied},
		{amqpbus.Access{Permission: w, Exchange: true, Object: ""}, amqpbus.Granted},
	} {
		got, err := amqpbus.New(config(t, user.URL)).Probe(t.Context(), "probe", []amqpbus.Access{tc.Access})
		if err != nil || got[0] != tc.want {
			t.Errorf("%s on %q (exchange %v): %v, %v; want %v", tc.Permission, tc.Object, tc.Exchange, got, err, tc.want)
		}
	}

	look := open(t, config(t, owner.URL), bus.SessionSpec{Name: "look"})
	for name, want := range map[string]bool{"mine.quorum": true, "mine.stream": true, "mine.classic": true,
		"mine.missing": false} {
		if d, err := look.Depth(t.Context(), name); want != (err == nil) || d != (bus.Depth{}) {
			t.Errorf("%s after the probe: %+v, %v", name, d, err)
		}
	}
}

// A probe that cannot connect says why; a URL that is none is not shown.
func TestProbeCannotConnect(t *testing.T) {
	t.Parallel()
	owner := brokertest.Vhost(t)
	if _, err := amqpbus.New(config(t, owner.As(t, "nobody", "wrong").URL)).Probe(t.Context(), "probe",
		nil); !errors.Is(err, bus.ErrAccess) {
		t.Errorf("with a wrong password: %v, want ErrAccess", err)
	}
	if _, err := amqpbus.New(amqpbus.Config{URL: "amqp:", Logger: zerolog.Nop()}).Probe(t.Context(), "probe",
		nil); err == nil {
		t.Error("a URL that is none was accepted")
	}
}

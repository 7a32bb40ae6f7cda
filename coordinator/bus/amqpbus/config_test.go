package amqpbus

import (
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
)

func TestParseTarget(t *testing.T) {
	for url, want := range map[string]string{
		"amqp://u:p@host":                               `host:5672 (virtual host "/", user "u")`,
		"amqps://u:p@host/v":                            `host:5671 (virtual host "v", user "u")`,
		"amqp://u:p%40%2F%3A@[::1]:7/%2Fdeep":           `[::1]:7 (virtual host "/deep", user "u")`,
		"amqp://host:1/":                                `host:1 (virtual host "/", user "guest")`,
		"amqps://host/?auth_mechanism=external":         `host:5671 (virtual host "/", user "")`,
		"amqps://u:p@host?server_name_indication=other": `host:5671 (virtual host "/", user "u")`,
	} {
		got, err := parseTarget(url)
		if err != nil || got.String() != want {
			t.Errorf("%s: %v, %v; want %s", url, got, err, want)
		}
	}
}

// The heartbeat decides how soon the broker lets go of the lock of a coordinator that
// is cut off: none at all would mean never.
func TestHeartbeatOfTheURL(t *testing.T) {
	for query, want := range map[string]time.Duration{
		"": 0, "?heartbeat=1": time.Second, "?heartbeat=30&auth_mechanism=plain": 30 * time.Second,
	} {
		if got, err := parseTarget("amqp://u:p@host/v" + query); err != nil || got.heartbeat != want {
			t.Errorf("%q: %+v, %v; want a heartbeat of %v", query, got, err, want)
		}
	}
	for _, query := range []string{"?heartbeat=0", "?heartbeat=", "?heartbeat=-1", "?heartbeat=1.5", "?heartbeat=65536",
		"?heartbeat=10s"} {
		if err := CheckURL("amqp://u:p@host/v" + query); err == nil || !strings.Contains(err.Error(), "heartbeat") &&
			!strings.Contains(err.Error(), "query parameter") {
			t.Errorf("%q: %v; want to be told what is wrong with the heartbeat", query, err)
		}
	}
}

// A reserved character that was not encoded makes url.Parse take parts of the
// password for something else, which is what makes quoting any of it unsafe.
func TestBadURLNeverShowsThePassword(t *testing.T) {
	for _, url := range []string{
		"", "canary", "http://u:canary@host", "amqp://u:canary @host", "amqp://u:canary%zz@host",
		"amqp://u:canary/x@host", "amqp://u:12345/canary@host", "amqp://u:canary?x@host", "amqp://u:canary#x@host",
		"amqp://u:x@canary@host", "amqp://u:canary@host:port", "amqp://u:canary@host:99999999999",
		"amqp://u:canary@ho st", "amqp://u:p@host/?heartbeat=canary", "amqp://u:p@host/?auth_mechanism=canary",
		"amqp://u:\x7fcanary@host", "AMQP-canary://u:p@host", "amqp://canary:p@host#fragment",
		"amqp://u:p@host/" + strings.Repeat("canary", 50),
	} {
		err := CheckURL(url)
		if address := Address(url); address != "" {
			t.Errorf("there is an address, %q, of a URL that is refused", address)
		}
		if err == nil {
			t.Errorf("%q is accepted", url)
		} else if strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "12345") {
			t.Errorf("the error shows the secret: %v", err)
		}
	}
}

func TestExplainScrubsAndClassifies(t *testing.T) {
	target := &target{addr: "host:5672", user: "u", password: "canary"}
	for _, test := range []struct {
		err    error
		want   string
		access bool
	}{
		{errors.New("dial canary failed"), "connect: dial *** failed", false},
		{&amqp.Error{Code: 320, Reason: "CONNECTION_FORCED - canary", Server: true},
			"connect: broker answered 320 CONNECTION_FORCED - ***", false},
		{&amqp.Error{Code: 403, Reason: "ACCESS_REFUSED", Server: true},
			"the broker refused access: connect: broker answered 403 ACCESS_REFUSED", true},
		{&amqp.Error{Code: 403, Reason: "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use", Server: true},
			"in use by another connection: connect: broker answered 403", false},
		{&amqp.Error{Code: 405, Reason: "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q'", Server: true},
			"in use by another connection: connect: broker answered 405", false},
		{&amqp.Error{Code: 530, Reason: "NOT_ALLOWED - vhost v not found", Server: true}, "virtual host", true},
	} {
		got := explain(target, "connect", test.err)
		if inUse := strings.Contains(test.want, "in use"); errors.Is(got, bus.ErrInUse) != inUse {
			t.Errorf("%v: ErrInUse is %v, want %v", test.err, !inUse, inUse)
		}
		if !strings.Contains(got.Error(), test.want) || strings.Contains(got.Error(), "canary") ||
			errors.Is(got, bus.ErrAccess) != test.access {
			t.Errorf("%v gives %q (access %v); want %q (access %v)", test.err, got, errors.Is(got, bus.ErrAccess), test.want,
				test.access)
		}
	}
}

func TestTLSNeverBelow12(t *testing.T) {
	target := &target{host: "broker.example"}
	for name, base := range map[string]*tls.Config{
		"none given": nil, "1.0 asked for": {MinVersion: tls.VersionTLS10}, //nolint:gosec // refused below
	} {
		cfg, err := target.tlsConfig(base)
		if err != nil || cfg.MinVersion != tls.VersionTLS12 || cfg.ServerName != "broker.example" {
			t.Errorf("%s: %+v, %v", name, cfg, err)
		}
	}
	cfg, err := target.tlsConfig(&tls.Config{MinVersion: tls.VersionTLS13, ServerName: "other"})
	if err != nil || cfg.MinVersion != tls.VersionTLS13 || cfg.ServerName != "other" {
		t.Errorf("stricter settings were not kept: %+v, %v", cfg, err)
	}
}

func TestConnectionName(t *testing.T) {
	if got := connectionName("taskbus@host", "publish"); !strings.HasPrefix(got, "taskbus/publish@host#") {
		t.Errorf("%q", got)
	}
	if got := connectionName(strings.Repeat("x", 300), "consume"); len(got) != bus.ShortString {
		t.Errorf("%d bytes, want %d", len(got), bus.ShortString)
	}
}

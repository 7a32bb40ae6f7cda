package integration

import (
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"strings"
	"syscall"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/view"
)

// Whatever happens, no password and nothing of a payload is ever written or
// answered (S11): a whole story with canaries in both, faults of the connection
// included, and then everything that can be read is searched.
func TestNoSecretIsEverTold(t *testing.T) {
	t.Parallel()
	const secret, hidden = "s3cr3t-canary", "p4yload-canary"
	r := newRig(t, fleet)
	user := "canary-" + r.broker.VHost
	r.broker.Ctl(t, "add_user", user, secret)
	t.Cleanup(func() { r.broker.Ctl(t, "delete_user", user) })
	r.broker.SetPermissions(t, user, ".*", ".*", ".*")
	mine := r.broker.As(t, user, secret)

	var told strings.Builder // everything that can be read
	look := func(c *process) {
		for _, path := range []string{"/", "/health", "/livez", "/readyz", "/status", "/metrics", "/tasks?limit=1000",
			"/tasks/t-1", "/tasks/t-1/explain", "/tasks/t-bad"} {
			_, body := c.get(path)
			fmt.Fprintln(&told, body)
		}
	}

	t.Log("a whole story")
	c := r.launch(mine.URL, "LOG_LEVEL=debug")
	c.awaitReady()
	r.online(c, "a1")
	good := task("t-1", "build")
	good.Payload = json.RawMessage(`{"key":"` + hidden + `"}`)
	r.assign(good)
	if d := r.dispatches("a1", 1)[0]; !strings.Contains(string(d.Payload), hidden) {
		t.Fatal("the canary did not go its way")
	}
	bad := task("t-bad", "build")
	bad.Payload = json.RawMessage(`"` + hidden + `"`) // not an object
	r.assign(bad)
	other := task("t-1", "build")
	other.Payload = json.RawMessage(`{"key":"` + hidden + `","more":1}`) // duplicate_task
	r.assign(other)
	nobody := task("t-nobody", "translate")
	nobody.Payload = good.Payload
	r.assign(nobody)
	r.publish(bus.QueueAssign,
		amqp.Publishing{Body: []byte(`{"task_id":"t-cut","payload":{"key":"` + hidden)},
		amqp.Publishing{Body: []byte(hidden)},
		amqp.Publishing{Body: []byte(`{}`), Headers: amqp.Table{"authorization": hidden}, ContentEncoding: "gzip"})
	r.publish(bus.StreamStatus, amqp.Publishing{Body: []byte(`{"agent_id":"a1","key":"` + hidden + `"`)})
	c.awaitStatus("all is settled", func(s view.Status) bool {
		return s.Counters.Failed >= 3 && s.Counters.Invalid >= 4 && s.Counters.StatusRefused["invalid"] == 1
	})
	look(c)

	t.Log("connections closed, access refused, a changed password")
	r.broker.CloseConnections(t)
	c.awaitStatus("a second session", func(s view.Status) bool { return s.Broker.Sessions >= 2 && s.Readiness.Ready })
	r.client = connect(t, r.broker)
	r.broker.Ctl(t, "change_password", user, secret+"-changed")
	r.broker.CloseConnections(t)
	eventually(t, patience, "access is refused", func() (bool, string) {
		d := c.health().Checks["broker"].Detail
		return strings.Contains(d, "refused access"), d
	})
	look(c)
	r.broker.Ctl(t, "change_password", user, secret)
	c.awaitReady()
	look(c)
	c.signal(syscall.SIGHUP)
	c.log.await(t, "configuration read again: nothing has changed")
	c.stop()
	fmt.Fprintln(&told, c.log)

	t.Log("a broker that is not there")
	nowhere, err := url.Parse(mine.URL)
	if err != nil {
		t.Fatal("the broker's URL does not parse")
	}
	nowhere.Host = "127.0.0.1:" + freePort(t)
	c = r.launch(nowhere.String(), "LOG_LEVEL=debug")
	c.awaitStatus("it tries again", func(s view.Status) bool {
		return s.Broker.Sessions >= 2 &&
			s.Broker.LastError != ""
	})
	look(c)
	c.stop()
	fmt.Fprintln(&told, c.log)

	t.Log("URLs that are none")
	for _, broken := range []string{
		"amqp://" + user + ":" + secret + "@host:port/", "http://" + user + ":" + secret + "@host/", user + ":" + secret +
			"@host",
		"amqp://" + user + ":" + secret + "@", "amqp://" + user + ":" + secret + "%zz@host/", "amqp://" + user + ":" +
			secret + "@ho st/",
		"amqp://" + user + ":" + secret + "@host:99999/", secret,
	} {
		c = r.launchBroken(broken)
		if c.code != 78 && c.code != 1 {
			t.Errorf("exit code %d", c.code)
		}
		fmt.Fprintln(&told, c.log)
	}

	for line := range strings.Lines(told.String()) {
		for _, canary := range []string{secret, hidden} {
			if strings.Contains(line, canary) {
				t.Errorf("told: %s", strings.ReplaceAll(line, canary, "<CANARY>"))
			}
		}
	}
	if told.Len() < 10_000 {
		t.Errorf("only %d bytes were searched", told.Len())
	}
}

// freePort is a port that is free.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

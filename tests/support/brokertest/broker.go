package brokertest

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
)

// The environment that names the broker, as `scripts/broker.sh env` prints it.
const (
	EnvAMQP = "TASKBUS_TEST_AMQP_URL"   // amqp://user:password@host:port/
	EnvMgmt = "TASKBUS_TEST_MGMT_URL"   // http://user:password@host:port
	EnvDir  = "TASKBUS_TEST_BROKER_DIR" // the node's directory, for rabbitmqctl
)

// Broker is one virtual host, seen by a user who may do everything in it.
type Broker struct {
	// URL is the AMQP URL with user, password and virtual host.
	URL string
	// VHost is the virtual host's name, unescaped.
	VHost string
	// Mgmt is http://host:port of the management API, without credentials.
	Mgmt string

	api     api
	dir     string
	lookout *lookout // nil: a connection for each look
}

// Vhost makes a virtual host with a name of its own and deletes it, with all
// that is in it, when the test ends. Tests with a virtual host each may run in
// parallel on one broker; user names are shared by all of them.
func Vhost(t testing.TB) Broker {
	t.Helper()
	return fromEnvironment(t).NewVhost(t)
}

// NewVhost is [Vhost] on this broker, e.g. on a [Private] node that several tests share.
func (b Broker) NewVhost(t testing.TB) Broker {
	t.Helper()
	name := vhostName(t)
	b.api.must(t, http.MethodPut, nil, nil, "vhosts", name)
	t.Cleanup(func() { b.api.must(t, http.MethodDelete, nil, nil, "vhosts", name) })
	b.logged(t)
	vb := b.In(t, name)
	vb.SetPermissions(t, vb.user(), ".*", ".*", ".*")
	vb.lookout = &lookout{}
	t.Cleanup(vb.lookout.close)
	return vb
}

func fromEnvironment(t testing.TB) Broker {
	t.Helper()
	Needs(t, "a broker")
	amqpURL, mgmtURL, dir := os.Getenv(EnvAMQP), os.Getenv(EnvMgmt), os.Getenv(EnvDir)
	if amqpURL == "" || mgmtURL == "" || dir == "" {
		t.Fatalf(`this test needs a broker: run make test, or: scripts/broker.sh start && eval "$(scripts/broker.sh env)"`)
	}
	api := newAPI(t, mgmtURL)
	return Broker{URL: amqpURL, VHost: "/", Mgmt: api.base, api: api, dir: dir}
}

// In is the same broker in another virtual host, which must exist.
func (b Broker) In(t testing.TB, vhost string) Broker {
	t.Helper()
	u := parse(t, b.URL)
	u.Path, u.RawPath = "/"+vhost, "/"+url.PathEscape(vhost)
	b.URL, b.VHost, b.lookout = u.String(), vhost, nil
	return b
}

// As is the broker's URL for another user, e.g. one made by [Broker.AddUser].
func (b Broker) As(t testing.TB, user, password string) Broker {
	t.Helper()
	u := parse(t, b.URL)
	u.User = url.UserPassword(user, password)
	b.URL, b.lookout = u.String(), nil
	return b
}

func (b Broker) user() string { return b.api.user }

// parse keeps a URL that does not parse out of the failure: it may hold a
// password.
func parse(t testing.TB, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil || u.User == nil {
		t.Fatal(
			"the broker's URL in the environment is not of the form scheme://user:password@host:port; run: scripts/broker.sh " +
				"env")
	}
	return u
}

// vhostName tells an operator which test left it behind, should one ever.
func vhostName(t testing.TB) string {
	const longest = 60
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		default:
			return '.'
		}
	}, t.Name())
	return clean[:min(len(clean), longest)] + "-" + randomHex(4)
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return hex.EncodeToString(b)
}

package brokertest

import (
	"net/http"
	"strings"
	"testing"
)

// DeclareQueue makes a durable queue with exactly these arguments, e.g.
// {"x-queue-type": "quorum"}; nil makes a plain classic queue.
func (b Broker) DeclareQueue(t testing.TB, name string, args map[string]any) {
	t.Helper()
	b.api.must(t, http.MethodPut, map[string]any{"durable": true, "arguments": notNil(args)}, nil, "queues", b.VHost, name)
}

// DeleteQueue removes a queue, whatever is in it or consumes from it.
func (b Broker) DeleteQueue(t testing.TB, name string) {
	t.Helper()
	b.api.must(t, http.MethodDelete, nil, nil, "queues", b.VHost, name)
}

// DeclareExchange makes a durable exchange; kind is "topic", "direct" or "fanout".
func (b Broker) DeclareExchange(t testing.TB, name, kind string) {
	t.Helper()
	b.api.must(t, http.MethodPut, map[string]any{"type": kind, "durable": true}, nil, "exchanges", b.VHost, name)
}

// DeleteExchange removes an exchange with its bindings.
func (b Broker) DeleteExchange(t testing.TB, name string) {
	t.Helper()
	b.api.must(t, http.MethodDelete, nil, nil, "exchanges", b.VHost, name)
}

// Bind routes from an exchange to a queue.
func (b Broker) Bind(t testing.TB, exchange, queue, key string) {
	t.Helper()
	b.api.must(t, http.MethodPost, map[string]any{"routing_key": key}, nil, "bindings", b.VHost, "e", exchange, "q", queue)
}

// SetPolicy applies a policy to the queues whose names match, e.g.
// SetPolicy(t, "full", `^agent\.a1$`, {"max-length": 1, "overflow": "reject-publish"}).
func (b Broker) SetPolicy(t testing.TB, name, pattern string, definition map[string]any) {
	t.Helper()
	b.api.must(t, http.MethodPut, map[string]any{
		"pattern": pattern, "definition": definition, "apply-to": "queues",
	}, nil, "policies", b.VHost, name)
}

// DeletePolicy takes a policy back.
func (b Broker) DeletePolicy(t testing.TB, name string) {
	t.Helper()
	b.api.must(t, http.MethodDelete, nil, nil, "policies", b.VHost, name)
}

// AddUser makes a user who may do nothing yet and returns the broker as this
// user sees it; it is removed when the test ends. Users belong to the whole
// broker, not to the virtual host: choose a name that no other test uses.
func (b Broker) AddUser(t testing.TB, name string) Broker {
	t.Helper()
	password := randomHex(12)
	b.api.must(t, http.MethodPut, map[string]any{"password": password, "tags": ""}, nil, "users", name)
	t.Cleanup(func() { b.api.must(t, http.MethodDelete, nil, nil, "users", name) })
	return b.As(t, name, password)
}

// SetPermissions gives a user three regular expressions of object names; "" is
// none. RabbitMQ caches permissions per channel: take them from a connected user
// and close its connections.
func (b Broker) SetPermissions(t testing.TB, user, configure, write, read string) {
	t.Helper()
	b.api.must(t, http.MethodPut, map[string]any{
		"configure": configure, "write": write, "read": read,
	}, nil, "permissions", b.VHost, user)
}

// SetTopicPermissions restricts the routing keys a user may use at an exchange.
func (b Broker) SetTopicPermissions(t testing.TB, user, exchange, write, read string) {
	t.Helper()
	b.api.must(t, http.MethodPut, map[string]any{
		"exchange": exchange, "write": write, "read": read,
	}, nil, "topic-permissions", b.VHost, user)
}

// CloseConnections ends every connection in the virtual host, as an operator
// would, and returns when the broker has been told.
func (b Broker) CloseConnections(t testing.TB) {
	t.Helper()
	// Over rabbitmqctl: the management API does not know connections that are
	// younger than five seconds.
	b.close(t, "close_all_connections", "--vhost", b.VHost)
}

// CloseConnectionsOf ends every connection of a user likewise.
func (b Broker) CloseConnectionsOf(t testing.TB, user string) {
	t.Helper()
	b.close(t, "close_all_user_connections", user)
}

// close has rabbitmqctl close connections. One that ends by itself meanwhile makes it give up before the others.
func (b Broker) close(t testing.TB, args ...string) {
	t.Helper()
	for try := 1; ; try++ {
		_, err := tryScript(t, b.dir, "ctl", append(args, "closed by a test")...)
		if err == nil {
			return
		}
		if try == 3 || !strings.Contains(err.Error(), "{:gen_server, :call") {
			t.Fatal(err)
		}
	}
}

// Ctl runs rabbitmqctl on the node and returns what it printed. It concerns the
// whole node unless the arguments name the virtual host ("-p", b.VHost): alarms
// (set_vm_memory_high_watermark) and stop_app belong on a [Private] node.
func (b Broker) Ctl(t testing.TB, args ...string) string {
	t.Helper()
	return script(t, b.dir, "ctl", args...)
}

func notNil(args map[string]any) map[string]any {
	if args == nil {
		return map[string]any{}
	}
	return args
}

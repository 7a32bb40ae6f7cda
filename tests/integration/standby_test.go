package integration

import (
	"net/http"
	"strings"
	"testing"
)

// It does not matter which of the coordinators a command asks: one that stands by forwards changes to the
// one that leads. With another admin token it says what is wrong, and where the leader is.
func TestStandbyForwardsChanges(t *testing.T) {
	t.Parallel()
	r, leader := gatewayRig(t, gatewayQuotas, withToken)
	second := r.launch(r.broker.URL, "TASKBUS_AGENT_SECRET="+agentSecret, withToken)
	second.awaitState("standby")
	out, said, code := second.command(adminToken, "quota", "set", "pool/team/rich", "total_tokens.amount=700", "--reason",
		"a test")
	if code != 0 || !strings.Contains(out, "total_tokens.amount=700") {
		t.Fatalf("quota set at the one that stands by: %d\n%s%s", code, out, said)
	}
	var controls struct {
		Controls []struct{ Target, Value, Reason string }
	}
	leader.read("/v1/quota/controls", &controls)
	if len(controls.Controls) != 1 || controls.Controls[0].Value != "700" || controls.Controls[0].Reason != "a test" {
		t.Errorf("at the leader stands %+v", controls.Controls)
	}
	for _, args := range [][]string{
		{"quota", "boost", "pool/team", "total_tokens", "+50%", "--for", "2h"},
		{"quota", "add-group", "late", "weight=2"},
		{"quota", "remove-group", "late"},
	} {
		if out, said, code := second.command(adminToken, args...); code != 0 {
			t.Errorf("taskbus %s: %d\n%s%s", strings.Join(args, " "), code, out, said)
		}
	}
	if status := second.change(http.MethodDelete, "/tasks/never-seen", adminToken, nil); status != http.StatusOK &&
		status != http.StatusAccepted {
		t.Errorf("a cancel of a task that nobody knows: %d", status)
	}
	// What the leader refuses is its answer here, too.
	if _, said, code := second.command(adminToken, "quota", "set", "pool/nobody", "weight=5"); code != 1 ||
		!strings.Contains(said, "Does not fit") {
		t.Errorf("a node that there is not: %d %s", code, said)
	}
	stranger := r.launch(r.broker.URL, "TASKBUS_AGENT_SECRET="+agentSecret,
		"TASKBUS_ADMIN_TOKEN=another-admin-token-0123456789-0123")
	stranger.awaitState("standby")
	_, said, code = stranger.command("another-admin-token-0123456789-0123", "quota", "set", "pool/team", "weight=5")
	if code != 1 || !strings.Contains(said, leader.base) || !strings.Contains(said, "same admin token") {
		t.Errorf("with another token than the leader's: %d %s; want the leader's address %s and the reason", code, said,
			leader.base)
	}
}

// unwrapped has a text on one line: where it is wrapped depends on the length of the version.
func unwrapped(text string) string { return strings.Join(strings.Fields(text), " ") }

// A list of coordinators with one that stands by first, and an address where nothing listens: what the leader
// knows is shown; when it has ended, what the next one knows.
func TestCommandsAskTheOneThatLeads(t *testing.T) {
	t.Parallel()
	r, leader := gatewayRig(t, gatewayQuotas, withToken)
	second := r.launch(r.broker.URL, "TASKBUS_AGENT_SECRET="+agentSecret, withToken)
	second.awaitState("standby")
	list := "http://127.0.0.1:1," + second.base + "," + leader.base
	out, said, code := second.command("", "status", "--url", list)
	if want := " at " + leader.base + ", epoch 1"; code != 0 || !strings.Contains(unwrapped(out), want) {
		t.Errorf("%d: %q is missing in\n%s%s", code, want, out, said)
	}
	for _, want := range []string{"standbys    http://127.0.0.1:1 does not answer", second.base + " standby",
		"\nagents "} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s%s", want, out, said)
		}
	}
	leader.stop()
	second.awaitState("active")
	if out, said, code := second.command("", "status", "--url", list); code != 0 ||
		!strings.Contains(unwrapped(out), " at "+second.base+", epoch 2") {
		t.Errorf("after the take-over: %d\n%s%s", code, out, said)
	}
}

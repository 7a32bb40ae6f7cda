package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"taskbus/coordinator/bus"
	"taskbus/coordinator/credential"
	"taskbus/coordinator/view"
)

// agentSecret is what the agents' tokens of these tests are derived from.
const agentSecret = "canary-agents-0123456789-abcdefg"

// send makes a request with a body. token goes as a bearer token unless empty.
func (c *process) send(method, path, token, body string) (status int, answer string) {
	c.t.Helper()
	request, err := http.NewRequestWithContext(c.t.Context(), method, c.base+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := httpClient.Do(request)
	if err != nil {
		c.alive()
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	return response.StatusCode, string(text)
}

// put reports an agent's capacity with the agent's own token.
func (c *process) put(agent string, capacity float64, pending int) (status int, answer string) {
	c.t.Helper()
	return c.send(http.MethodPut, "/agents/"+agent+"/capacity", credential.AgentToken([]byte(agentSecret), agent),
		fmt.Sprintf(`{"capacity_items_per_second": %g, "pending_items": %d, "health": "BUSY"}`, capacity, pending))
}

// awaitCapacity waits until /agents/stats says what the agent has reported.
func (c *process) awaitCapacity(agent string, capacity float64, pending int) {
	c.t.Helper()
	eventually(c.t, patience, agent+" is known by what it reported", func() (bool, string) {
		var s view.AgentStats
		c.read("/agents/stats", &s)
		for _, a := range s.Agents {
			if a.ID == agent {
				return a.State == "online" && a.CapacityReported && a.Capacity == capacity && a.Pending == pending,
					fmt.Sprintf("%+v", a)
			}
		}
		return false, "no such agent"
	})
}

// What an agent reports over HTTP goes through the broker: the coordinator that took
// it counts it, and one that takes over after a crash knows it, too. With
// agents.auth: strict RabbitMQ itself vouches for its publisher.
func TestCapacityReportedOverHTTP(t *testing.T) {
	t.Parallel()
	r := newRig(t, replaced(t, fleet, "agents:\n", "agents:\n  auth: strict\n"))
	first := r.start("TASKBUS_AGENT_SECRET=" + agentSecret)

	for _, tc := range []struct {
		name, path, token, body string
		status                  int
	}{
		{"without a token", "/agents/a1/capacity", "", `{}`, http.StatusUnauthorized},
		{"with another agent's", "/agents/a1/capacity", credential.AgentToken([]byte(agentSecret), "a2"), `{}`,
			http.StatusUnauthorized},
		{"with a body that is none", "/agents/a1/capacity", credential.AgentToken([]byte(agentSecret), "a1"),
			`{"capacity_items_per_second": -1}`, http.StatusBadRequest},
		{"for nobody of the fleet", "/agents/a9/capacity", credential.AgentToken([]byte(agentSecret), "a9"),
			`{"capacity_items_per_second": 1, "pending_items": 1}`, http.StatusNotFound},
	} {
		if status, answer := first.send(http.MethodPut, tc.path, tc.token, tc.body); status != tc.status {
			t.Errorf("%s: %d %s, want %d", tc.name, status, answer, tc.status)
		}
	}

	if status, answer := first.put("a1", 16, 1); status != http.StatusNoContent || answer != "" {
		t.Fatalf("a1's report: %d %s, want 204", status, answer)
	}
	if status, answer := first.put("a1", 16, 2); status != http.StatusTooManyRequests {
		t.Errorf("again at once: %d %s, want 429", status, answer)
	}
	first.awaitCapacity("a1", 16, 1)

	second := r.launch(r.broker.URL, "TASKBUS_AGENT_SECRET="+agentSecret)
	second.awaitState("standby")
	if status, answer := second.put("a1", 16, 1); status != http.StatusNoContent {
		t.Errorf("to the one that stands by: %d %s, want 204: it publishes for the fleet as well", status, answer)
	}
	first.kill()
	second.awaitReady()
	second.awaitCapacity("a1", 16, 1)
	if n := second.status().Counters.StatusRefused["wrong_sender"]; n != 0 {
		t.Errorf("%d statuses of a wrong sender; the relayed one is the coordinator's own", n)
	}

	// What it said is what the strategy sees: a1 takes a task, and whatif said so.
	var prospect view.Prospect
	status, answer := second.send(http.MethodPost, "/whatif", "",
		`{"task_id": "t-1", "task_type": "build", "payload": {}}`)
	if err := json.Unmarshal([]byte(answer), &prospect); err != nil || status != http.StatusOK || prospect.Agent != "a1" {
		t.Errorf("whatif: %d %s, want a1", status, answer)
	}
	r.empty(bus.QueueAssign, "agent.a1")
	var capabilities view.CapabilityList
	second.read("/capabilities", &capabilities)
	for _, c := range capabilities.Capabilities {
		if want := map[string]int{"code": 1, "go": 1, "gpu": 0}[c.Name]; c.BusFactor != want {
			t.Errorf("%s hangs on %d agents, want %d", c.Name, c.BusFactor, want)
		}
	}
	if n := len(capabilities.Capabilities); n != 3 {
		t.Errorf("%d capabilities, want code, go and gpu", n)
	}
	second.stop()
}

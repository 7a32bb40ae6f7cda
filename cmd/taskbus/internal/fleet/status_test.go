package fleet

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/view"
	"taskbus/tests/support/clitest"
)

// The whole fits a screen, and says what waits where, why, and what to do.
func TestStatus(t *testing.T) {
	r := newRig()
	r.StartCoordinator(t, clitest.FixedSource{Says: &clitest.Burning})
	if code := r.Run(t, "status"); code != cli.ExitOK {
		t.Fatalf("exit code %d: %s", code, r.Err.String())
	}
	clitest.Golden(t, "status.txt", r.Out.String())
	if lines := strings.Count(r.Out.String(), "\n"); lines > 19 {
		t.Errorf("%d lines, want a screen's part", lines)
	}
	asJSON := newRig()
	asJSON.StartCoordinator(t, clitest.FixedSource{Says: &clitest.Burning})
	var v overview
	code := asJSON.Run(t, "status", "-o", "json")
	if err := json.Unmarshal([]byte(asJSON.Out.String()), &v); err != nil || code != cli.ExitOK {
		t.Fatalf("%d, %v: %s", code, err, asJSON.Out.String())
	}
	// 44,753 + 0 + 3,990 + 2 on their way into lanes + 12
	if n := v.Waiting.total(); n != 48_757 || v.Agents.Online != 3 || v.Agents.WhyNot["full"] != 2 ||
		v.Agents.SlotsUsed != 9 || v.Agents.Slots != 12 {
		t.Errorf("%d wait, want 48757; agents %+v", n, v.Agents)
	}
}

// Of several coordinators each is shown; the fleet is that of the leader. A standby knows the leader, and
// not what the leader knows of the fleet.
func TestStatusOfSeveral(t *testing.T) {
	serve := func(source clitest.FixedSource) string {
		server := httptest.NewServer(httpapi.New(source, http.NotFoundHandler(), httpapi.Options{LoopbackHosts: true}))
		t.Cleanup(server.Close)
		return server.URL
	}
	follower := clitest.Burning
	follower.Instance, follower.Agents, follower.Readiness = "taskbus@host-2#7", nil,
		view.Readiness{State: "standby", Detail: "taskbus@host-1#4711 leads"}
	leader, standby, none := serve(clitest.FixedSource{Says: &clitest.Burning}),
		serve(clitest.FixedSource{Says: &follower, Is: "standby"}),
		clitest.Dead(t)
	r := newRig()
	code := r.Run(t, "status", "--url", standby+","+none+","+leader)
	for _, want := range []string{
		"leader      taskbus@host-1#4711 (1.4.0) at http://host-1:8551, epoch 3 for 3h\n",
		"standbys    " + standby + " standby; " + none + " does not answer", "3 of 4 agents online",
	} {
		if !strings.Contains(r.Out.String(), want) || code != cli.ExitOK {
			t.Errorf("exit code %d; %q is missing in\n%s%s", code, want, r.Out.String(), r.Err.String())
		}
	}
	r = newRig()
	code = r.Run(t, "status", "--url", standby)
	if want := "--url http://host-1:8551"; code != cli.ExitOK ||
		!strings.Contains(strings.Join(strings.Fields(r.Out.String()), " "), want) ||
		strings.Contains(r.Out.String(), "agents online") {
		t.Errorf("exit code %d; a standby alone says\n%s; want %s, and nothing of agents", code, r.Out.String(), want)
	}
}

// More kinds of waiting tasks than are shown are counted.
func TestStatusCountsTheKindsThatItDoesNotShow(t *testing.T) {
	many := clitest.Burning
	many.Pending.Waits = nil
	for range maxKinds + 2 {
		many.Pending.Waits = append(many.Pending.Waits, clitest.Burning.Pending.Waits...)
	}
	r := newRig()
	r.StartCoordinator(t, clitest.FixedSource{Says: &many})
	if code := r.Run(t, "status"); code != cli.ExitOK ||
		!strings.Contains(r.Out.String(), "            and 2 kinds more (-o json)\n") {
		t.Errorf("exit code %d:\n%s", code, r.Out.String())
	}
}

// Several processes under one id are told of once, below the table of agents.
func TestSeveralProcessesUnderOneID(t *testing.T) {
	shared := clitest.Burning
	shared.Agents = []view.Agent{{ID: "a1", State: "online", Slots: 4, Eligible: true, Instances: 2}}
	shared.Health.Checks = map[string]view.Check{"agents": {Status: view.Degraded,
		Detail: "several processes report as a1 (2)"}}
	r := newRig()
	r.StartCoordinator(t, clitest.FixedSource{Says: &shared})
	const want = "\na1 is the id of 2 processes, and the slots and tasks of one count for all: give each its own " +
		"agent_id\n"
	if code := r.Run(t, "agents"); code != cli.ExitOK || !strings.HasSuffix(r.Out.String(), want) {
		t.Errorf("exit code %d:\n%s", code, r.Out.String())
	}
}

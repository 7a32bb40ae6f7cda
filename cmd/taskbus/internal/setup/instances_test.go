package setup

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/view"
	"taskbus/tests/support/clitest"
)

// following is a coordinator that stands by for the leader at address.
func following(t *testing.T, address string, checks map[string]view.Check) string {
	t.Helper()
	s := view.Status{
		Version: "1.4.0", Instance: "taskbus@host-2#7", Now: clitest.Noon,
		Readiness: view.Readiness{State: "standby", Detail: "taskbus@host-1#4711 leads"},
		Leader:    &view.Leader{Instance: "taskbus@host-1#4711", Address: address, Version: "1.4.0", Epoch: 3},
		Broker:    clitest.Burning.Broker, Config: view.Config{LastReloadOK: true},
		Health: view.Health{Status: view.Healthy, Checks: checks},
	}
	server := httptest.NewServer(httpapi.New(clitest.FixedSource{Says: &s, Is: "standby"}, http.NotFoundHandler(),
		httpapi.Options{LoopbackHosts: true}))
	t.Cleanup(server.Close)
	return server.URL
}

// What the commands for the first look say of several coordinators.
func TestSeveralCoordinatorsAreLookedAt(t *testing.T) {
	quiet := clitest.Burning
	quiet.Health, quiet.Config = view.Health{Status: view.Healthy}, view.Config{LastReloadOK: true}
	server := httptest.NewServer(httpapi.New(clitest.FixedSource{Says: &quiet}, http.NotFoundHandler(),
		httpapi.Options{LoopbackHosts: true}))
	t.Cleanup(server.Close)
	leader, frozen := server.URL, clitest.Dead(t)
	other := map[string]view.Check{"config": {Status: view.Degraded,
		Detail: "version 2; the leader has another agents.yaml"}}
	files := following(t, leader, other)
	const lost = "the leader taskbus@host-1#4711 at "
	for _, tc := range []struct {
		name   string
		urls   []string
		health int               // exit code of health
		doctor string            // state of what doctor says of them; empty: nothing
		says   map[string]string // by command
	}{
		{"all is well", []string{leader, following(t, leader, nil)}, cli.ExitOK, "", nil},
		{"the leader hangs", []string{frozen, following(t, frozen, other)}, cli.ExitFailed, checkProblem, map[string]string{
			"health": lost + frozen + " does not answer", "status": lost + frozen + " does not answer", "doctor": lost + frozen +
				" does not answer"}},
		{"the leader hangs, and is listed by another name", []string{frozen, following(t, clitest.Dead(t), nil)},
			cli.ExitFailed,
			checkProblem, map[string]string{
				"health": lost, "status": lost, "doctor": lost}},
		{"a standby is away", []string{leader, frozen}, cli.ExitOK, checkWarning, map[string]string{
			"health": frozen + " does not answer", "status": "start " + frozen, "doctor": "start " + frozen}},
		{"one is away, the leader is none of the list", []string{frozen, following(t, leader, nil)}, cli.ExitOK, checkWarning,
			map[string]string{"status": "--url " + leader}},
		{"a standby has other files", []string{leader, files}, cli.ExitOK, checkWarning, map[string]string{
			"health": files + ": config degraded: version 2; the leader has another agents.yaml",
			"status": "the leader has another agents.yaml", "doctor": "the leader has another agents.yaml"}},
	} {
		for _, command := range []string{"health", "status", "doctor"} {
			r := newRig()
			args := []string{command, "--url", strings.Join(tc.urls, ",")}
			if command == "doctor" {
				d := doctor{app: &r.App, url: &args[2]}
				d.checkCoordinator(t.Context())
				worst := ""
				for _, f := range d.report.Checks {
					if f.Check == "coordinator" && (f.State == checkProblem || f.State == checkWarning && worst == "") {
						worst = f.State
					}
				}
				if err := d.print(); err != nil || worst != tc.doctor {
					t.Errorf("%s: doctor: %q, want %q, %v: %+v", tc.name, worst, tc.doctor, err, d.report.Checks)
				}
			} else {
				want := cli.ExitOK
				if command == "health" {
					want = tc.health
				}
				if code := r.Run(t, args...); code != want {
					t.Errorf("%s: %s: exit code %d, want %d: %s", tc.name, command, code, want, r.Err.String())
				}
			}
			text := strings.Join(strings.Fields(r.Out.String()), " ")
			if !strings.Contains(text, tc.says[command]) || (tc.says == nil || tc.health == cli.ExitFailed) &&
				strings.Contains(text, cli.CheckStandbys+" degraded") {
				t.Errorf("%s: %s says\n%s\nwant %q", tc.name, command, r.Out.String(), tc.says[command])
			}
		}
	}
}

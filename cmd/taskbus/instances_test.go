package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"taskbus/coordinator/httpapi"
)

// following is a coordinator that stands by for the leader at address.
func following(t *testing.T, address string, checks map[string]httpapi.Check) string {
	t.Helper()
	s := httpapi.Status{
		Version: "1.4.0", Instance: "taskbus@host-2#7", Now: noon,
		Readiness: httpapi.Readiness{State: "standby", Detail: "taskbus@host-1#4711 leads"},
		Leader:    &httpapi.Leader{Instance: "taskbus@host-1#4711", Address: address, Version: "1.4.0", Epoch: 3},
		Broker:    burning.Broker, Config: httpapi.Config{LastReloadOK: true},
		Health: httpapi.Health{Status: httpapi.Healthy, Checks: checks},
	}
	server := httptest.NewServer(httpapi.New(fixedSource{status: &s, is: "standby"}, http.NotFoundHandler(),
		httpapi.Options{LoopbackHosts: true}))
	t.Cleanup(server.Close)
	return server.URL
}

// What the commands for the first look say of several coordinators.
func TestSeveralCoordinatorsAreLookedAt(t *testing.T) {
	quiet := burning
	quiet.Health, quiet.Config = httpapi.Health{Status: httpapi.Healthy}, httpapi.Config{LastReloadOK: true}
	server := httptest.NewServer(httpapi.New(fixedSource{status: &quiet}, http.NotFoundHandler(),
		httpapi.Options{LoopbackHosts: true}))
	t.Cleanup(server.Close)
	leader, frozen := server.URL, dead(t)
	other := map[string]httpapi.Check{"config": {Status: httpapi.Degraded,
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
		{"all is well", []string{leader, following(t, leader, nil)}, exitOK, "", nil},
		{"the leader hangs", []string{frozen, following(t, frozen, other)}, exitFailed, checkProblem, map[string]string{
			"health": lost + frozen + " does not answer", "status": lost + frozen + " does not answer", "doctor": lost + frozen +
				" does not answer"}},
		{"the leader hangs, and is listed by another name", []string{frozen, following(t, dead(t), nil)}, exitFailed,
			checkProblem, map[string]string{
				"health": lost, "status": lost, "doctor": lost}},
		{"a standby is away", []string{leader, frozen}, exitOK, checkWarning, map[string]string{
			"health": frozen + " does not answer", "status": "start " + frozen, "doctor": "start " + frozen}},
		{"one is away, the leader is none of the list", []string{frozen, following(t, leader, nil)}, exitOK, checkWarning,
			map[string]string{"status": "--url " + leader}},
		{"a standby has other files", []string{leader, files}, exitOK, checkWarning, map[string]string{
			"health": files + ": config degraded: version 2; the leader has another agents.yaml",
			"status": "the leader has another agents.yaml", "doctor": "the leader has another agents.yaml"}},
	} {
		for _, command := range []string{"health", "status", "doctor"} {
			r := newRig()
			args := []string{command, "--url", strings.Join(tc.urls, ",")}
			if command == "doctor" {
				d := doctor{app: &r.app, url: &args[2]}
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
				want := exitOK
				if command == "health" {
					want = tc.health
				}
				if code := r.run(t, args...); code != want {
					t.Errorf("%s: %s: exit code %d, want %d: %s", tc.name, command, code, want, r.err.String())
				}
			}
			text := strings.Join(strings.Fields(r.out.String()), " ")
			if !strings.Contains(text, tc.says[command]) || (tc.says == nil || tc.health == exitFailed) &&
				strings.Contains(text, checkStandbys+" degraded") {
				t.Errorf("%s: %s says\n%s\nwant %q", tc.name, command, r.out.String(), tc.says[command])
			}
		}
	}
}

// What a standby finds that the leader finds too, such as the loss of the journal, is told once.
func TestWhatAStandbySaysTooIsToldOnce(t *testing.T) {
	lost := httpapi.Check{Status: httpapi.Degraded, Detail: "the journal was empty at noon",
		Advice: "put right what is listed"}
	h := withInstances(httpapi.Health{Status: httpapi.Degraded, Checks: map[string]httpapi.Check{"journal": lost}},
		map[string]httpapi.Check{
			checkStandbys: {Status: httpapi.Degraded,
				Detail: "http://b: journal degraded: the journal was empty at noon; http://c does not answer", Advice: lost.Advice},
		})
	want := httpapi.Check{Status: httpapi.Degraded,
		Detail: "http://b: journal degraded, see the check `journal`; http://c does not answer"}
	if h.Checks[checkStandbys] != want || h.Checks["journal"] != lost {
		t.Errorf("%+v, want %+v", h.Checks, want)
	}
}

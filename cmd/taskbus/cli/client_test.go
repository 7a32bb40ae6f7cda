package cli

import (
	"testing"

	"taskbus/coordinator/view"
)

// What a standby finds that the leader finds too, such as the loss of the journal, is told once.
func TestWhatAStandbySaysTooIsToldOnce(t *testing.T) {
	lost := view.Check{Status: view.Degraded, Detail: "the journal was empty at noon",
		Advice: "put right what is listed"}
	h := WithInstances(view.Health{Status: view.Degraded, Checks: map[string]view.Check{"journal": lost}},
		map[string]view.Check{
			CheckStandbys: {Status: view.Degraded,
				Detail: "http://b: journal degraded: the journal was empty at noon; http://c does not answer", Advice: lost.Advice},
		})
	want := view.Check{Status: view.Degraded,
		Detail: "http://b: journal degraded, see the check `journal`; http://c does not answer"}
	if h.Checks[CheckStandbys] != want || h.Checks["journal"] != lost {
		t.Errorf("%+v, want %+v", h.Checks, want)
	}
}

func TestWhereTheCoordinatorIs(t *testing.T) {
	for _, tc := range []struct {
		flag string
		env  map[string]string
		want string
	}{
		{"", nil, "http://127.0.0.1:8551"},
		{"", map[string]string{"COORDINATOR_PORT": "9000"}, "http://127.0.0.1:9000"},
		{"", map[string]string{"COORDINATOR_PORT": "9000", "TASKBUS_HTTP_URL": "http://a:1/"}, "http://a:1"},
		{"https://b:2", map[string]string{"TASKBUS_HTTP_URL": "http://a:1"}, "https://b:2"},
	} {
		a := &App{Getenv: func(name string) string { return tc.env[name] }}
		if c, err := a.NewClient(tc.flag); err != nil || c.Base != tc.want {
			t.Errorf("--url %q, %v: %v, %v; want %s", tc.flag, tc.env, c, err, tc.want)
		}
	}
}

package setup

import (
	"regexp"
	"strings"
	"testing"

	"taskbus/cmd/taskbus/cli"
	"taskbus/config"
	"taskbus/coordinator/bus"
	"taskbus/tests/support/clitest"
)

func TestTopologyOutput(t *testing.T) {
	for _, tc := range []struct{ golden, args string }{
		{"topology-quorum.txt", "topology show --config testdata/agents.yaml"},
		{"topology-classic.txt", "topology show --config testdata/classic.yaml"},
		{"policies-quorum.txt", "topology policies --config testdata/agents.yaml"},
		{"policies-classic.txt", "topology policies --config testdata/classic.yaml --priority 50"},
		{"policies-classic.json", "topology policies --config testdata/classic.yaml -o json"},
		{"apply.txt", "topology apply --config testdata/agents.yaml"},
	} {
		t.Run(tc.golden, func(t *testing.T) {
			r := newRig()
			r.Env["RABBITMQ_URL"] = "amqp://user:password@rabbit:5672/it%27s"
			if code := r.Run(t, strings.Fields(tc.args)...); code != cli.ExitOK {
				t.Fatalf("exit code %d: %s", code, r.Err.String())
			}
			clitest.Golden(t, tc.golden, r.Out.String())
		})
	}
}

// Every plain queue of the classic profile is matched by exactly one policy.
func TestPoliciesCoverTheClassicProfile(t *testing.T) {
	cfg, err := config.Load("testdata/classic.yaml", config.Environment{})
	if err != nil {
		t.Fatal(err)
	}
	policies, err := classicPolicies(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range standard(cfg, bus.Declare).Queues {
		n := 0
		for _, p := range policies {
			if regexp.MustCompile(p.Pattern).MatchString(q.Name) {
				n++
			}
			if regexp.MustCompile(p.Pattern).MatchString(q.Name + "x") {
				t.Errorf("policy %s also matches %sx", p.Name, q.Name)
			}
		}
		if want := map[bool]int{true: 1, false: 0}[q.Kind == bus.Classic]; n != want {
			t.Errorf("%s (%s): %d policies, want %d", q.Name, q.Kind, n, want)
		}
	}
}

func TestTopologyApply(t *testing.T) {
	r := newRig()
	if code := r.Run(t, "topology", "apply", "--config", "testdata/agents.yaml"); code != cli.ExitOK {
		t.Fatalf("exit code %d: %s", code, r.Err.String())
	}
	s, err := r.Broker.Open(t.Context(), bus.SessionSpec{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	for _, queue := range []string{bus.QueueAssign, bus.QueueDead, "agent.gpu-1"} {
		if _, err := s.Depth(t.Context(), queue); err != nil {
			t.Errorf("%s: %v", queue, err)
		}
	}
	r.Broker.SetOpenError(bus.ErrAccess)
	if code := r.Run(t, "topology", "apply", "--config", "testdata/agents.yaml"); code != cli.ExitFailed ||
		!strings.Contains(r.Err.String(), "refused access") {
		t.Errorf("without permission: exit code %d, %s", code, r.Err.String())
	}
}

func TestShellQuote(t *testing.T) {
	for in, want := range map[string]string{"": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$(x)`y`": "'$(x)`y`'"} {
		if got := shellQuote(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

func TestBrokerAddress(t *testing.T) {
	for in, want := range map[string][2]string{
		"amqp://user:secret@rabbit:5672/":        {"amqp://rabbit:5672/", "/"},
		"amqp://user:secret@rabbit":              {"amqp://rabbit", "/"},
		"amqps://user:secret@rabbit/team%2Fa?x=": {"amqps://rabbit/team%2Fa", "team/a"},
	} {
		s := config.NewSecret(in)
		if got := [2]string{cli.BrokerAddress(s), cli.VirtualHost(s)}; got != want {
			t.Errorf("%s: %q, want %q", strings.Replace(in, "secret", "…", 1), got, want)
		}
	}
}

// What Taskbus has put on a broker is taken away with all that is in it, on request and while no
// coordinator leads.
func TestTopologyDelete(t *testing.T) {
	for _, tc := range []struct {
		name, args, in string
		leads          bool
		code           int
		out, err       string // parts of them
		left           bool
	}{
		{"no yes", "", "", false, cli.ExitUsage, "",
			"delete everything of Taskbus at amqp://rabbit:5672/, with 2 messages in its queues? [y/N]", true},
		{"no", "", "n\n", false, cli.ExitFailed, "", "nothing was done", true},
		{"yes", "", "yes\n", false, cli.ExitOK, "queues deleted", "", false},
		{"not asked", "--yes", "", false, cli.ExitOK, "amqp://rabbit:5672/: ", "", false},
		{"a coordinator leads", "--yes", "", true, cli.ExitFailed, "", "nothing was deleted: a coordinator leads", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig()
			r.Env["RABBITMQ_URL"] = "amqp://user:password@rabbit:5672/"
			r.In = strings.NewReader(tc.in)
			if code := r.Run(t, "topology", "apply", "--config", "testdata/agents.yaml"); code != cli.ExitOK {
				t.Fatal(r.Err.String())
			}
			settled := make(chan struct{}, 3)
			s, err := r.Broker.Open(t.Context(), bus.SessionSpec{OnSettled: func(uint64, bus.Outcome) { settled <- struct{}{} }})
			if err != nil {
				t.Fatal(err)
			}
			for _, queue := range []string{bus.QueueAssign, bus.QueueDead, bus.StreamJournal} { // a stream's do not count
				if err := s.Publish(bus.Publication{Key: queue, Body: []byte("{}")}); err != nil {
					t.Fatal(err)
				}
				<-settled
			}
			if tc.leads {
				if err := s.TakeLock(t.Context(), bus.QueueLeader, nil); err != nil {
					t.Fatal(err)
				}
			}
			code := r.Run(t, strings.Fields("topology delete --config testdata/agents.yaml "+tc.args)...)
			if code != tc.code || !strings.Contains(r.Out.String(), tc.out) || !strings.Contains(r.Err.String(), tc.err) {
				t.Errorf("exit code %d, stdout %q, stderr %q; want %d, %q, %q", code, r.Out.String(), r.Err.String(), tc.code,
					tc.out, tc.err)
			}
			for _, q := range standard(mustLoad(t, "testdata/agents.yaml"), bus.Off).Queues {
				if _, err := s.Depth(t.Context(), q.Name); (err == nil) != tc.left {
					t.Errorf("%s afterwards: %v", q.Name, err)
				}
			}
			_ = s.Close(t.Context())
		})
	}
}

func mustLoad(t *testing.T, path string) *config.Config {
	t.Helper()
	cfg, err := config.Load(path, config.Environment{})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

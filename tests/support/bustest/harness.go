package bustest

import (
	"testing"

	"taskbus/coordinator/bus"
)

// Harness is what the suite needs from a transport. A hook fails the test by
// itself (t.Fatal) when it cannot do its work.
type Harness struct {
	// New gives a Bus on a broker, or virtual host, that is empty and that no
	// other case uses. Its sessions know their user's name (User). What it needs to clean up goes into t.Cleanup,
	// which runs
	// after the case has closed its sessions.
	New func(t *testing.T) bus.Bus
	// Cut severs every connection to b's broker from the broker's side. It
	// returns when they are closed there; the sessions may notice later.
	Cut func(t *testing.T, b bus.Bus)
	// Between has sessions of b that are opened later call f between the steps of what
	// the broker does not do in one: "drop q" between the look at a queue q and its deletion.
	Between func(t *testing.T, b bus.Bus, f func(step string))
	// DeleteQueue removes a queue with all its messages, in use or not.
	DeleteQueue func(t *testing.T, b bus.Bus, queue string)
	// DeleteExchange removes an exchange with all its bindings.
	DeleteExchange func(t *testing.T, b bus.Bus, exchange string)
	// Trim makes a stream forget some of its oldest messages; nothing where its
	// limits do so by themselves, which may take a moment.
	Trim func(t *testing.T, b bus.Bus, stream string)
	// Block raises (true) or clears (false) an alarm that holds up publishers.
	// It is used only when Features.Alarms is set.
	Block func(t *testing.T, b bus.Bus, blocked bool)

	Features Features
}

// Features tells which optional hooks a harness has. The cases of a missing one
// stay in the output and log that they did not run.
type Features struct {
	// Alarms: Block works.
	Alarms bool
}

// testCase is one promise. needs, if set, tells whether the harness can show it,
// and without names what is missing if it cannot.
type testCase struct {
	name    string
	run     func(*rig)
	needs   func(Features) bool
	without string
}

// Exercise runs every case of the suite as a sub-test of t, one after another,
// each on a Bus of its own.
func Exercise(t *testing.T, h Harness) {
	groups := []struct {
		name  string
		cases []testCase
	}{
		{"publish", publishCases()},
		{"orders", orderCases()},
		{"deliver", deliverCases()},
		{"dispensable", dispensableCases()},
		{"deadletter", deadLetterCases()},
		{"stream", streamCases()},
		{"route", routeCases()},
		{"topology", topologyCases()},
		{"standard", standardCases()},
		{"lock", lockCases()},
		{"lifecycle", lifecycleCases()},
		{"steps", stepCases()},
		{"alarm", alarmCases()},
	}
	for _, group := range groups {
		t.Run(group.name, func(t *testing.T) { exercise(t, h, group.cases) })
	}
}

// ExerciseAlarms runs the cases that need Features.Alarms alone, for a transport whose alarms concern
// more than the broker of one case.
func ExerciseAlarms(t *testing.T, h Harness) { exercise(t, h, alarmCases()) }

func exercise(t *testing.T, h Harness, cases []testCase) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if c.needs != nil && !c.needs(h.Features) {
				t.Logf("not exercised: this harness %s", c.without)
				return
			}
			c.run(&rig{t: t, harness: h, bus: h.New(t)})
		})
	}
}

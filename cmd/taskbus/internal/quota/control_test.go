package quota

import (
	"strings"
	"testing"
	"time"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/view"
	"taskbus/tests/support/clitest"
)

// controlledFleet is limitedFleet with a few changes.
func controlledFleet() clitest.FixedSource {
	s := limitedFleet()
	s.Controls = view.QuotaControls{Configured: true, Controls: []view.QuotaControl{
		{ID: "set-1f", Kind: "set", Target: "pool/alpha", Key: "weight", Value: "5", At: clitest.Noon.Add(-48 * time.Hour),
			By:     "ann",
			Reason: "it does the core work"},
		{ID: "boost-2e", Kind: "boost", Target: "pool/alpha", Key: "total_tokens", Value: "+50%",
			At:    clitest.Noon.Add(-time.Hour),
			Until: clitest.Noon.Add(time.Hour), By: "ben", Reason: "the report is due"},
		{ID: "boost-3d", Kind: "boost", Target: "pool/alpha/agent_2", Key: "weight", Value: "-1",
			At: clitest.Noon.Add(-3 * time.Hour), Rule: "idle", Reason: "under 10 % on 3 days"},
		{ID: "set-4c", Kind: "set", Target: "pool/gone", Key: "weight", Value: "2", At: clitest.Noon.Add(-time.Minute),
			By:        "ann",
			Suspended: "no node of the quota trees is called pool/gone"},
	}}
	return s
}

func TestChangingQuotas(t *testing.T) {
	for _, tc := range []struct {
		args string
		code int
		out  string // lines that standard output must have; ¶ parts them
		err  string // part of standard error
	}{
		{"quota set pool/alpha weight=5 total_tokens.amount=2000000 --by ann --reason core", cli.ExitOK,
			"stands: set-1  pool/alpha total_tokens.amount=2000000¶stands: set-1  pool/alpha weight=5¶pool/alpha, weight " +
				"2¶pool/alpha  total_tokens  235k  30k       500k  53%", ""},
		{"quota set pool/alpha weight=5 --for 2h", cli.ExitOK, "stands: set-1  pool/alpha weight=5, ends in 2h", ""},
		{"quota set pool/alpha weight=5 -o json", cli.ExitOK, `      "key": "weight",¶      "value": "5",¶      "by": "cora"`,
			""},
		{"quota boost pool/alpha total_tokens +50% --for 2h", cli.ExitOK,
			"stands: boost-1  pool/alpha total_tokens +50%, ends in 2h", ""},
		{"quota boost pool/alpha/agent_1 total_tokens +50% --for 2h", cli.ExitOK,
			"it comes from what pool has given to none: 0, before 20k¶pool/alpha/agent_1 total_tokens: 450k, before 300k¶it " +
				"comes from pool/beta: 70k, before 200k¶pool/alpha/agent_1 has lent 25k of its 300k to others: a boost does not " +
				"bring that back; its budget begins anew in 30d¶stands: boost-1", ""},
		{"quota boost --until 2126-03-01T14:00:00Z pool/alpha weight -- -1", cli.ExitOK,
			"stands: boost-1  pool/alpha weight -1, ends in 36524d", ""},
		{"quota correct pool/alpha cost_usd +12.50 --reason told", cli.ExitOK,
			"corrected: correct-1  pool/alpha cost_usd +12.50¶pool/alpha, weight 2", ""},
		{"quota correct pool/alpha total_tokens -- -1900", cli.ExitOK, "corrected: correct-1  pool/alpha total_tokens -1900",
			""},
		// The coordinator of this test has used 500 itself.
		{"quota correct pool/alpha requests -- -5900", cli.ExitOK,
			"corrected: correct-1  pool/alpha requests -500 (asked for -5900; in this period it has used no more", ""},
		{"quota correct pool requests -- -5900", cli.ExitOK,
			"nothing moved: correct-1  pool requests 0 (asked for -5900): in this period it has used nothing", ""},
		{"quota correct pool/alpha total_tokens -1900", cli.ExitUsage, "",
			"a negative number comes last, after --: taskbus quota correct ... -- -1900"},
		{"quota boost pool/alpha weight -1 --for 2h", cli.ExitUsage, "",
			"a negative number comes last, after --: taskbus quota boost ... -- -1"},
		{"quota correct pool/alpha total_tokens -x", cli.ExitUsage, "", "unknown shorthand flag: 'x' in -x"},
		{"quota correct pool/zeta total_tokens +1", cli.ExitFailed, "", "Does not fit: Nothing was changed"},
		{"quota unset boost-2e", cli.ExitOK, "ended: boost-2e  pool/alpha total_tokens +50%, ends in 1h", ""},
		{"quota add-group team-c weight=2 limits.cost_usd.amount=5.5 limits.cost_usd.per=day", cli.ExitOK,
			`stands: group-1  team-c group {"limits":{"cost_usd":{"amount":5.5,"per":"day"}},"weight":2}`, ""},
		{"quota add-agent a-7 group_id=team-c", cli.ExitOK, `stands: group-1  a-7 group {"group_id":"team-c"}`, ""},

		{"quota set pool/zeta weight=5", cli.ExitFailed, "",
			"Does not fit: Nothing was changed: no node of the quota trees is called pool/zeta."},
		{"quota unset set-9", cli.ExitFailed, "", "Unknown change: Nothing was changed"},
		{"quota remove-group alpha", cli.ExitFailed, "",
			"Listed in quotas.yaml: Nothing was changed: group alpha is listed in quotas.yaml"},
		{"quota set pool/alpha weight", cli.ExitUsage, "", "must be KEY=VALUE such as weight=5"},
		{"quota set pool/alpha weight=1 weight=2", cli.ExitUsage, "", "each key once"},
		{"quota set ../x weight=1", cli.ExitUsage, "", "is not the id of a node"},
		{"quota boost pool/alpha total_tokens +50%", cli.ExitUsage, "", "a boost is for a time"},
		{"quota boost pool/alpha total_tokens +50% --for 1h --until 2126-03-01T14:00:00Z", cli.ExitUsage, "", "give one"},
		{"quota boost pool/alpha total_tokens +50% --until tomorrow", cli.ExitUsage, "", "--until must be a time"},
		{"quota boost pool/alpha total_tokens +50% --for 1ms", cli.ExitUsage, "", "at least a second"},
		// the coordinator knows what it takes
		{"quota boost pool/alpha total_tokens 50% --for 1h", cli.ExitOK, "total_tokens 50%", ""},
		{"quota add-group team-c limits=1 limits.cost_usd.amount=5", cli.ExitUsage, "", "given twice"},
		{"quota add-group team-c weight=", cli.ExitUsage, "", "must be KEY=VALUE"},
		{"quota add-group team-c", cli.ExitUsage, "", "at least weight=1"},
		{"quota add-group ../c", cli.ExitUsage, "", "is not a group's id"},
	} {
		t.Run(tc.args, func(t *testing.T) {
			r := newRig()
			r.StartCoordinator(t, controlledFleet())
			r.Env["TASKBUS_ADMIN_TOKEN"], r.Env["USER"] = clitest.AdminToken, "cora"
			if code := r.Run(t, strings.Fields(tc.args)...); code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			for _, want := range strings.Split(tc.out, "¶") {
				if !strings.Contains(r.Out.String(), want) {
					t.Errorf("stdout lacks %q:\n%s", want, r.Out.String())
				}
			}
			if got := r.Err.String(); !strings.Contains(got, tc.err) || (got == "") != (tc.err == "") {
				t.Errorf("stderr %q, want %q", got, tc.err)
			}
		})
	}
}

func TestListOfQuotaChanges(t *testing.T) {
	r := newRig()
	r.StartCoordinator(t, controlledFleet())
	if code := r.Run(t, "quota", "controls"); code != cli.ExitOK {
		t.Fatalf("exit code %d: %s", code, r.Err.String())
	}
	clitest.Golden(t, "quota-controls.txt", r.Out.String())
	r = newRig()
	r.StartCoordinator(t, limitedFleet())
	if r.Run(t, "quota", "controls"); !strings.Contains(r.Out.String(), "nothing has been changed") {
		t.Errorf("without any: %s", r.Out.String())
	}
}

// What the shell suggests: nodes, then settings; ids of what stands.
func TestQuotaChangeCompletion(t *testing.T) {
	for args, want := range map[string]string{
		"quota set p":              "pool/alpha/agent_1\tagent",
		"quota set pool/alpha ":    "weight=",
		"quota boost pool/alpha ":  "total_tokens",
		"quota unset s":            "set-1f\tpool/alpha weight=5",
		"quota remove-group a":     "alpha\tgroup",
		"quota add-agent agent-7 ": "group_id=",
	} {
		r := newRig()
		r.StartCoordinator(t, controlledFleet())
		if code := r.Run(t, append([]string{"__complete"}, strings.Split(args, " ")...)...); code != cli.ExitOK ||
			!strings.Contains(r.Out.String(), want) {
			t.Errorf("%q: lacks %q:\n%s", args, want, r.Out.String())
		}
	}
}

// What was to last two hours a moment ago does not end in one, and what is an hour and a half does.
func TestUntilIsRounded(t *testing.T) {
	now := time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC)
	for length, want := range map[time.Duration]string{
		2*time.Hour - 30*time.Millisecond: "in 2h",
		2*time.Hour - 5*time.Second:       "in 2h", // to the minute
		90 * time.Minute:                  "in 1h",
		48*time.Hour - time.Second:        "in 2d",
		time.Minute - time.Millisecond:    "in 1m",
		1400 * time.Millisecond:           "in 1s",
		900 * time.Millisecond:            "now",
		-time.Hour:                        "now",
	} {
		if got := cli.Until(now, now.Add(length)); got != want {
			t.Errorf("%v ahead is %q, want %q", length, got, want)
		}
	}
}

package quota

import (
	"strings"
	"testing"
	"time"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/httpapi"
	"taskbus/coordinator/view"
	"taskbus/tests/support/clitest"
)

// limitedFleet is a coordinator with quotas: FAIR-SHARE's group of 500,000 tokens a month,
// shared 3:2, and a provider.
func limitedFleet() clitest.FixedSource {
	december := time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)
	tokens := func(limit, used, reserved float64) view.QuotaBudget {
		return view.QuotaBudget{Dimension: "total_tokens", Limit: limit, Cap: limit, Used: used, Reserved: reserved,
			Remaining: limit - used - reserved, Period: "2026-03", ResetTime: december}
	}
	borrowing := tokens(200_000, 195_000, 30_000)
	borrowing.Cap, borrowing.Borrowed, borrowing.Remaining = 225_000, 25_000, 0
	lending := tokens(300_000, 40_000, 0)
	lending.Cap, lending.Lent, lending.Remaining = 275_000, 25_000, 235_000
	return clitest.FixedSource{
		Nodes: view.Quotas{
			Configured: true, TotalNodes: 5, CostPerSecond: 1200,
			Nodes: []view.QuotaNode{
				{ID: "pool", Kind: "pool", Name: "pool", Weight: 1},
				{ID: "pool/alpha", Kind: "group", Name: "alpha", Parent: "pool", Weight: 2,
					Budgets: []view.QuotaBudget{tokens(500_000, 235_000, 30_000)}},
				{ID: "pool/alpha/agent_1", Kind: "agent", Name: "agent_1", Parent: "pool/alpha", Weight: 3,
					Budgets: []view.QuotaBudget{lending},
					Rates:   []view.QuotaRate{{Dimension: "requests", Amount: 5, PerSeconds: 1, Burst: 10, Remaining: 8}}},
				{ID: "pool/alpha/agent_2", Kind: "agent", Name: "agent_2", Parent: "pool/alpha", Weight: 2,
					Budgets: []view.QuotaBudget{borrowing},
					Rates:   []view.QuotaRate{{Dimension: "requests", Amount: 5, PerSeconds: 2, Burst: 3, Remaining: 0}}},
				{ID: "openai", Kind: "pool", Name: "openai", Weight: 1,
					Budgets: []view.QuotaBudget{{Dimension: "cost_usd", Limit: 50, Cap: 50, Used: 12.3456, Reserved: 0.25,
						Debt: 0.5, Remaining: 37.4044, ResetTime: clitest.Noon.Add(90 * time.Minute)}},
					Rates: []view.QuotaRate{{Dimension: "total_tokens", Amount: 2_000_000, PerSeconds: 60, Burst: 2_000_000,
						Remaining: 1_234_567}}, Concurrency: &view.QuotaConcurrency{Limit: 20, Running: 7, Available: 13}},
			},
			Groups: []view.QuotaTurns{
				{Group: "alpha", Waiting: 12, WaitingForQuota: 5, Share: 0.8, TargetShare: 2. / 3}, {Group: "idle"},
				{Group: "other", Waiting: 1, Share: 0.2, TargetShare: 1. / 3},
			},
		},
		QuotaAnswer: view.QuotaAnswer{
			Reason: "the budget of pool/alpha/agent_2 in total_tokens is used up; back at 2026-04-01T00:00:00Z", Group: "alpha",
			GroupKnown: true, Agent: "agent_2",
			Amounts: map[string]float64{"requests": 1, "input_tokens": 4000, "output_tokens": 500, "total_tokens": 4500,
				"concurrency": 1, "cost_usd": 0},
			Node: "pool/alpha/agent_2", Dimension: "total_tokens", Limit: "budget", RetryAt: december,
			Nodes: []string{"pool/alpha/agent_2", "pool/alpha", "pool"},
			Limits: []view.QuotaLimit{
				{Node: "pool/alpha/agent_2", Dimension: "requests", Limit: "rate", Asked: 1, Refuses: true,
					Renews: clitest.Noon.Add(400 * time.Millisecond)},
				{Node: "pool/alpha/agent_2", Dimension: "total_tokens", Limit: "budget", Asked: 4500, Borrowable: 3000,
					Refuses: true, Binds: true, Renews: december},
				{Node: "pool/alpha", Dimension: "total_tokens", Limit: "budget", Asked: 4500, Left: 235_000, Renews: december},
			},
		},
	}
}

// What a group may borrow is shown besides what is left of its own.
func TestShowWhatMayBeBorrowed(t *testing.T) {
	r, fleet := newRig(), limitedFleet()
	fleet.QuotaAnswer.Limits = append(fleet.QuotaAnswer.Limits,
		view.QuotaLimit{Node: "pool/alpha", Dimension: "cost_usd", Limit: "budget", Borrowable: 367})
	r.StartCoordinator(t, fleet)
	if code := r.Run(t, "quota", "show", "alpha"); code != cli.ExitOK ||
		!strings.Contains(r.Out.String(), "\nbesides it may borrow $367 cost_usd now (pool/alpha)\n") {
		t.Errorf("exit code %d:\n%s", code, r.Out.String())
	}
}

func TestLookingAtQuotas(t *testing.T) {
	for _, tc := range []struct {
		golden, args string
		code         int
	}{
		{"quota-ls.txt", "quota ls", cli.ExitOK},
		{"quota-ls.json", "quota ls -o json", cli.ExitOK},
		{"quota-ls-group.txt", "quota ls --group alpha", cli.ExitOK},
		{"quota-show-group.txt", "quota show alpha", cli.ExitOK},
		{"quota-show-agent.txt", "quota show agent_2", cli.ExitOK},
		{"quota-show-agent.json", "quota show agent_2 -o json", cli.ExitOK},
		{"quota-show-provider.txt", "quota show openai", cli.ExitOK},
		{"quota-show-node.txt", "quota show pool/alpha/agent_1", cli.ExitOK},
		{"quota-show-pool.txt", "quota show pool", cli.ExitOK},
		{"quota-explain.txt", "quota explain --group alpha --agent agent_2 --input-tokens 4000 --output-tokens 500",
			cli.ExitFailed},
		{"quota-explain.json", "quota explain --group alpha --agent agent_2 --input-tokens 4000 --output-tokens 500 -o json",
			cli.ExitFailed},
		{"quota-explain-alternatives.txt",
			"quota explain --group alpha --alternatives openai/gpt-4o,lab --input-tokens 1000 --output-tokens 500", cli.ExitOK},
		{"quota-explain-alternatives.json",
			"quota explain --group alpha --alternatives openai/gpt-4o,lab --input-tokens 1000 --output-tokens 500 -o json",
			cli.ExitOK},
	} {
		t.Run(tc.golden, func(t *testing.T) {
			r := newRig()
			fleet := limitedFleet()
			if strings.Contains(tc.args, "alternatives") {
				fleet.QuotaAnswer = clitest.RoutedAnswer()
			}
			r.StartCoordinator(t, fleet)
			if code := r.Run(t, strings.Fields(tc.args)...); code != tc.code || r.Err.String() != "" {
				t.Errorf("exit code %d, want %d; stderr: %s", code, tc.code, r.Err.String())
			}
			clitest.Golden(t, tc.golden, r.Out.String())
		})
	}
}

func TestQuotaOddities(t *testing.T) {
	admitted := clitest.FixedSource{QuotaAnswer: view.QuotaAnswer{Admitted: true, Reason: "there is quota",
		Group:   "nobody",
		Amounts: map[string]float64{"requests": 1}}}
	unread := limitedFleet()
	unread.Readiness = view.Readiness{State: "connecting", Detail: "connection refused"}
	for _, tc := range []struct {
		name, args string
		source     clitest.FixedSource
		code       int
		out, err   string // each is part of the output
	}{
		{"no quotas", "quota ls", clitest.FixedSource{QuotasErr: httpapi.ErrNoQuotas}, cli.ExitOK,
			"no quotas.yaml, so that nothing is limited", ""},
		{"a journal that was never read", "quota ls", unread, cli.ExitOK,
			"not connected to the broker (connection refused) and has not read the journal", ""},
		{"no quotas to show", "quota show alpha", clitest.FixedSource{QuotasErr: httpapi.ErrNoQuotas}, cli.ExitFailed, "",
			"No quotas: This coordinator has no quotas.yaml"},
		{"no quotas to ask about", "quota explain", clitest.FixedSource{QuotasErr: httpapi.ErrNoQuotas}, cli.ExitFailed, "",
			"No quotas"},
		{"an unknown group", "quota ls --group zeta", limitedFleet(), cli.ExitFailed, "",
			"There is no quota of a group zeta"},
		{"an unknown name", "quota show zeta", limitedFleet(), cli.ExitFailed, "",
			"no group, agent, provider or node of quotas.yaml is called zeta"},
		{"an unknown key", "quota show openai@z", limitedFleet(), cli.ExitFailed, "",
			"There is no quota of a provider openai@z"},
		{"an unknown node", "quota show pool/zeta", limitedFleet(), cli.ExitFailed, "",
			"There is no quota of a node pool/zeta"},
		{"what is no name", "quota show ../x", limitedFleet(), cli.ExitUsage, "", "is not the id of a node"},
		{"what is no group", "quota ls --group a/b", limitedFleet(), cli.ExitUsage, "", "not a group id"},
		{"no limit", "quota ls --limit 0", limitedFleet(), cli.ExitUsage, "", "1 to 100000"},
		{"less than nothing", "quota explain --input-tokens -1", limitedFleet(), cli.ExitUsage, "",
			"--input-tokens must be a number from 0"},
		{"not a number", "quota explain --input-tokens many", limitedFleet(), cli.ExitUsage, "", "--input-tokens"},
		{"no alternative", "quota explain --alternatives a,,b", limitedFleet(), cli.ExitUsage, "",
			"--alternatives must be PROVIDER or PROVIDER/MODEL"},
		{"alternatives to one provider", "quota explain --provider a --alternatives b", limitedFleet(), cli.ExitUsage, "",
			"--alternatives stand for provider and model"},
		{"a model of three words", "quota explain --model a,b", limitedFleet(), cli.ExitUsage, "", "--model is not a name"},
		{"admitted", "quota explain --group nobody", admitted, cli.ExitOK,
			"admitted: there is quota\nquotas.yaml does not list group nobody: only the pools limit it\nset aside for it: 1 " +
				"requests\nno limit concerns it\n", ""},
		{"no command", "quota", limitedFleet(), cli.ExitOK, "explain", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig()
			r.StartCoordinator(t, tc.source)
			if code := r.Run(t, strings.Fields(tc.args)...); code != tc.code || !strings.Contains(r.Out.String(), tc.out) ||
				!strings.Contains(r.Err.String(), tc.err) || (r.Err.String() == "") != (tc.err == "") {
				t.Errorf("exit code %d, want %d; stdout %q, stderr %q", code, tc.code, r.Out.String(), r.Err.String())
			}
		})
	}
}

func TestQuotaSuggestions(t *testing.T) {
	for args, want := range map[string]string{
		"quota ls --group ":      "alpha",
		"quota explain --agent ": "agent_1 agent_2",
		"quota show ":            "pool alpha pool/alpha agent_1 pool/alpha/agent_1 agent_2 pool/alpha/agent_2 openai",
	} {
		r := newRig()
		r.StartCoordinator(t, limitedFleet())
		r.Run(t, append([]string{"__completeNoDesc"}, strings.Split(args, " ")...)...)
		if got := strings.Join(strings.Fields(r.Out.String()), " "); got != want+" :4" {
			t.Errorf("%q: %q, want %s", args, got, want)
		}
	}
}

func TestQuantities(t *testing.T) {
	for want, got := range map[string]string{
		"0": cli.Quantity("requests", 0), "9999": cli.Quantity("total_tokens", 9999),
		"10k":    cli.Quantity("total_tokens", 10_000),
		"12.35k": cli.Quantity("total_tokens", 12_345),
		"500k":   cli.Quantity("total_tokens", 500_000), "1.235M": cli.Quantity("total_tokens", 1_234_567),
		"1000T":   cli.Quantity("total_tokens", 1e15),
		"$0.0012": cli.Quantity("cost_usd", 0.00123), "$50": cli.Quantity("cost_usd", 50),
		"$12k": cli.Quantity("cost_usd", 12_000),
		"0.5":  cli.Quantity("requests", 0.5),
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

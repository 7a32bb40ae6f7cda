package main

import (
	"strings"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/gateway"
	"taskbus/coordinator/httpapi"
)

// limitedFleet is a coordinator with quotas: FAIR-SHARE's group of 500,000 tokens a month,
// shared 3:2, and a provider.
func limitedFleet() fixedSource {
	december := time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)
	tokens := func(limit, used, reserved float64) httpapi.QuotaBudget {
		return httpapi.QuotaBudget{Dimension: "total_tokens", Limit: limit, Cap: limit, Used: used, Reserved: reserved,
			Remaining: limit - used - reserved, Period: "2026-03", ResetTime: december}
	}
	borrowing := tokens(200_000, 195_000, 30_000)
	borrowing.Cap, borrowing.Borrowed, borrowing.Remaining = 225_000, 25_000, 0
	lending := tokens(300_000, 40_000, 0)
	lending.Cap, lending.Lent, lending.Remaining = 275_000, 25_000, 235_000
	return fixedSource{
		quotas: httpapi.Quotas{
			Configured: true, TotalNodes: 5, CostPerSecond: 1200,
			Nodes: []httpapi.QuotaNode{
				{ID: "pool", Kind: "pool", Name: "pool", Weight: 1},
				{ID: "pool/alpha", Kind: "group", Name: "alpha", Parent: "pool", Weight: 2,
					Budgets: []httpapi.QuotaBudget{tokens(500_000, 235_000, 30_000)}},
				{ID: "pool/alpha/agent_1", Kind: "agent", Name: "agent_1", Parent: "pool/alpha", Weight: 3,
					Budgets: []httpapi.QuotaBudget{lending},
					Rates:   []httpapi.QuotaRate{{Dimension: "requests", Amount: 5, PerSeconds: 1, Burst: 10, Remaining: 8}}},
				{ID: "pool/alpha/agent_2", Kind: "agent", Name: "agent_2", Parent: "pool/alpha", Weight: 2,
					Budgets: []httpapi.QuotaBudget{borrowing},
					Rates:   []httpapi.QuotaRate{{Dimension: "requests", Amount: 5, PerSeconds: 2, Burst: 3, Remaining: 0}}},
				{ID: "openai", Kind: "pool", Name: "openai", Weight: 1,
					Budgets: []httpapi.QuotaBudget{{Dimension: "cost_usd", Limit: 50, Cap: 50, Used: 12.3456, Reserved: 0.25,
						Debt: 0.5, Remaining: 37.4044, ResetTime: noon.Add(90 * time.Minute)}},
					Rates: []httpapi.QuotaRate{{Dimension: "total_tokens", Amount: 2_000_000, PerSeconds: 60, Burst: 2_000_000,
						Remaining: 1_234_567}}, Concurrency: &httpapi.QuotaConcurrency{Limit: 20, Running: 7, Available: 13}},
			},
			Groups: []httpapi.QuotaTurns{
				{Group: "alpha", Waiting: 12, WaitingForQuota: 5, Share: 0.8, TargetShare: 2. / 3}, {Group: "idle"},
				{Group: "other", Waiting: 1, Share: 0.2, TargetShare: 1. / 3},
			},
		},
		quotaAnswer: httpapi.QuotaAnswer{
			Reason: "the budget of pool/alpha/agent_2 in total_tokens is used up; back at 2026-04-01T00:00:00Z", Group: "alpha",
			GroupKnown: true, Agent: "agent_2",
			Amounts: map[string]float64{"requests": 1, "input_tokens": 4000, "output_tokens": 500, "total_tokens": 4500,
				"concurrency": 1, "cost_usd": 0},
			Node: "pool/alpha/agent_2", Dimension: "total_tokens", Limit: "budget", RetryAt: december,
			Nodes: []string{"pool/alpha/agent_2", "pool/alpha", "pool"},
			Limits: []httpapi.QuotaLimit{
				{Node: "pool/alpha/agent_2", Dimension: "requests", Limit: "rate", Asked: 1, Refuses: true,
					Renews: noon.Add(400 * time.Millisecond)},
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
	fleet.quotaAnswer.Limits = append(fleet.quotaAnswer.Limits,
		httpapi.QuotaLimit{Node: "pool/alpha", Dimension: "cost_usd", Limit: "budget", Borrowable: 367})
	r.startCoordinator(t, fleet)
	if code := r.run(t, "quota", "show", "alpha"); code != exitOK ||
		!strings.Contains(r.out.String(), "\nbesides it may borrow $367 cost_usd now (pool/alpha)\n") {
		t.Errorf("exit code %d:\n%s", code, r.out.String())
	}
}

// routedAnswer is about a call that may go to OpenAI, by either of two keys, or to a lab of one's own.
func routedAnswer() httpapi.QuotaAnswer {
	weights := coordinator.RouteTerms{Remaining: 1, Price: 2, Latency: 1, Success: 1}
	april := noon.AddDate(0, 0, 31)
	route := func(provider, model string, score float64, terms coordinator.RouteTerms) coordinator.RouteScore {
		return coordinator.RouteScore{Service: coordinator.Service{Provider: provider, Model: model}, Pool: provider,
			Score: score, Terms: terms}
	}
	// (0 + 2·0.5 + 1 + 1)/5
	main := route("openai@main", "gpt-4o", 0.6, coordinator.RouteTerms{Price: 0.5, Latency: 1, Success: 1})
	main.Lacks = &coordinator.QuotaLack{
		Text:    "the rate of openai@main in requests is used up; back at 2026-03-01T12:00:20Z",
		RetryAt: noon.Add(20 * time.Second)}
	// (0.9 + 1 + 1 + 1)/5
	spare := route("openai@spare", "gpt-4o", 0.78, coordinator.RouteTerms{Remaining: 0.9, Price: 0.5, Latency: 1,
		Success: 1})
	// (0.8 + 2 + 0.8 + 0.9)/5
	lab := route("lab", "", 0.9, coordinator.RouteTerms{Remaining: 0.8, Price: 1, Latency: 0.8, Success: 0.9})
	lab.Chosen = true
	return httpapi.QuotaAnswer{
		Admitted: true, Reason: "there is quota", Group: "alpha", GroupKnown: true, Provider: "lab",
		Amounts: map[string]float64{"requests": 1, "input_tokens": 1000, "output_tokens": 500, "total_tokens": 1500,
			"concurrency": 1, "cost_usd": 0},
		Nodes: []string{"pool/alpha", "pool", "lab"},
		Limits: []httpapi.QuotaLimit{{Node: "pool/alpha", Dimension: "total_tokens", Limit: "budget", Asked: 1500,
			Left: 235_000, Renews: april}, {Node: "lab", Dimension: "requests", Limit: "rate", Asked: 1, Left: 8}},
		Routes:  httpapi.QuotaRoutesOf([]coordinator.RouteScore{main, spare, lab}, weights),
		Routing: new(gateway.CallRouteTerms(weights)),
	}
}

func TestLookingAtQuotas(t *testing.T) {
	for _, tc := range []struct {
		golden, args string
		code         int
	}{
		{"quota-ls.txt", "quota ls", exitOK},
		{"quota-ls.json", "quota ls -o json", exitOK},
		{"quota-ls-group.txt", "quota ls --group alpha", exitOK},
		{"quota-show-group.txt", "quota show alpha", exitOK},
		{"quota-show-agent.txt", "quota show agent_2", exitOK},
		{"quota-show-agent.json", "quota show agent_2 -o json", exitOK},
		{"quota-show-provider.txt", "quota show openai", exitOK},
		{"quota-show-node.txt", "quota show pool/alpha/agent_1", exitOK},
		{"quota-show-pool.txt", "quota show pool", exitOK},
		{"quota-explain.txt", "quota explain --group alpha --agent agent_2 --input-tokens 4000 --output-tokens 500",
			exitFailed},
		{"quota-explain.json", "quota explain --group alpha --agent agent_2 --input-tokens 4000 --output-tokens 500 -o json",
			exitFailed},
		{"quota-explain-alternatives.txt",
			"quota explain --group alpha --alternatives openai/gpt-4o,lab --input-tokens 1000 --output-tokens 500", exitOK},
		{"quota-explain-alternatives.json",
			"quota explain --group alpha --alternatives openai/gpt-4o,lab --input-tokens 1000 --output-tokens 500 -o json",
			exitOK},
	} {
		t.Run(tc.golden, func(t *testing.T) {
			r := newRig()
			fleet := limitedFleet()
			if strings.Contains(tc.args, "alternatives") {
				fleet.quotaAnswer = routedAnswer()
			}
			r.startCoordinator(t, fleet)
			if code := r.run(t, strings.Fields(tc.args)...); code != tc.code || r.err.String() != "" {
				t.Errorf("exit code %d, want %d; stderr: %s", code, tc.code, r.err.String())
			}
			golden(t, tc.golden, r.out.String())
		})
	}
}

func TestQuotaOddities(t *testing.T) {
	admitted := fixedSource{quotaAnswer: httpapi.QuotaAnswer{Admitted: true, Reason: "there is quota", Group: "nobody",
		Amounts: map[string]float64{"requests": 1}}}
	unread := limitedFleet()
	unread.readiness = httpapi.Readiness{State: "connecting", Detail: "connection refused"}
	for _, tc := range []struct {
		name, args string
		source     fixedSource
		code       int
		out, err   string // each is part of the output
	}{
		{"no quotas", "quota ls", fixedSource{quotasErr: httpapi.ErrNoQuotas}, exitOK,
			"no quotas.yaml, so that nothing is limited", ""},
		{"a journal that was never read", "quota ls", unread, exitOK,
			"not connected to the broker (connection refused) and has not read the journal", ""},
		{"no quotas to show", "quota show alpha", fixedSource{quotasErr: httpapi.ErrNoQuotas}, exitFailed, "",
			"No quotas: This coordinator has no quotas.yaml"},
		{"no quotas to ask about", "quota explain", fixedSource{quotasErr: httpapi.ErrNoQuotas}, exitFailed, "", "No quotas"},
		{"an unknown group", "quota ls --group zeta", limitedFleet(), exitFailed, "", "There is no quota of a group zeta"},
		{"an unknown name", "quota show zeta", limitedFleet(), exitFailed, "",
			"no group, agent, provider or node of quotas.yaml is called zeta"},
		{"an unknown key", "quota show openai@z", limitedFleet(), exitFailed, "", "There is no quota of a provider openai@z"},
		{"an unknown node", "quota show pool/zeta", limitedFleet(), exitFailed, "", "There is no quota of a node pool/zeta"},
		{"what is no name", "quota show ../x", limitedFleet(), exitUsage, "", "is not the id of a node"},
		{"what is no group", "quota ls --group a/b", limitedFleet(), exitUsage, "", "not a group id"},
		{"no limit", "quota ls --limit 0", limitedFleet(), exitUsage, "", "1 to 100000"},
		{"less than nothing", "quota explain --input-tokens -1", limitedFleet(), exitUsage, "",
			"--input-tokens must be a number from 0"},
		{"not a number", "quota explain --input-tokens many", limitedFleet(), exitUsage, "", "--input-tokens"},
		{"no alternative", "quota explain --alternatives a,,b", limitedFleet(), exitUsage, "",
			"--alternatives must be PROVIDER or PROVIDER/MODEL"},
		{"alternatives to one provider", "quota explain --provider a --alternatives b", limitedFleet(), exitUsage, "",
			"--alternatives stand for provider and model"},
		{"a model of three words", "quota explain --model a,b", limitedFleet(), exitUsage, "", "--model is not a name"},
		{"admitted", "quota explain --group nobody", admitted, exitOK,
			"admitted: there is quota\nquotas.yaml does not list group nobody: only the pools limit it\nset aside for it: 1 requests\nno limit concerns it\n", ""},
		{"no command", "quota", limitedFleet(), exitOK, "explain", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig()
			r.startCoordinator(t, tc.source)
			if code := r.run(t, strings.Fields(tc.args)...); code != tc.code || !strings.Contains(r.out.String(), tc.out) ||
				!strings.Contains(r.err.String(), tc.err) || (r.err.String() == "") != (tc.err == "") {
				t.Errorf("exit code %d, want %d; stdout %q, stderr %q", code, tc.code, r.out.String(), r.err.String())
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
		r.startCoordinator(t, limitedFleet())
		r.run(t, append([]string{"__completeNoDesc"}, strings.Split(args, " ")...)...)
		if got := strings.Join(strings.Fields(r.out.String()), " "); got != want+" :4" {
			t.Errorf("%q: %q, want %s", args, got, want)
		}
	}
}

func TestQuantities(t *testing.T) {
	for want, got := range map[string]string{
		"0": quantity("requests", 0), "9999": quantity("total_tokens", 9999), "10k": quantity("total_tokens", 10_000),
		"12.35k": quantity("total_tokens", 12_345),
		"500k":   quantity("total_tokens", 500_000), "1.235M": quantity("total_tokens", 1_234_567),
		"1000T":   quantity("total_tokens", 1e15),
		"$0.0012": quantity("cost_usd", 0.00123), "$50": quantity("cost_usd", 50), "$12k": quantity("cost_usd", 12_000),
		"0.5": quantity("requests", 0.5),
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// A task that waits says where it stands.
func TestExplainOfATaskInTheQueue(t *testing.T) {
	r := newRig()
	r.startCoordinator(t, fixedSource{explained: map[string]httpapi.TaskExplanation{"t-1": {
		ID: "t-1", Type: "build", TraceID: "trace", State: "pending",
		Reason: "waits for quota: the budget of pool/alpha in total_tokens is used up",
		Queued: &httpapi.Queued{Text: "1 of 2 tasks of group alpha with priority normal go before it", Start: "within 30 s"},
	}}})
	if code := r.run(t, "explain", "t-1"); code != exitOK ||
		!strings.Contains(r.out.String(),
			"\nin the queue: 1 of 2 tasks of group alpha with priority normal go before it\nit starts: within 30 s\n") {
		t.Errorf("exit code %d: %s", code, r.out.String())
	}
}

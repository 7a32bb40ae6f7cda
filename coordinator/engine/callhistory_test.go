package engine_test

import (
	"fmt"
	"maps"
	"slices"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/llmcalls"
)

// callIDs are few, so that what is asked about has often been asked about before.
var callIDs = []string{"c1", "c2", "c3", "c4", "c5"}

func drawCall(t *rapid.T) coordinator.Call {
	var heard *coordinator.ProviderWord
	if rapid.Bool().Draw(t, "heard") {
		heard = &coordinator.ProviderWord{
			Status:     rapid.SampledFrom([]int{0, 200, 200, 429, 429, 503}).Draw(t, "status"),
			RetryAfter: seconds(t, "retry after", 0, 0, 5, 90),
			Told:       uint8(rapid.IntRange(0, 15).Draw(t, "told")),
			Remains:    coordinator.Amounts{rapid.Int64Range(0, 5).Draw(t, "remains"), 3, 3, 3},
			Latency:    seconds(t, "latency", 0, 1, 7),
		}
	}
	var routes []coordinator.Service
	for range rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(t, "routes") {
		routes = append(routes, coordinator.Service{Provider: rapid.SampledFrom(quotaProviders).Draw(t, "to"),
			Model: rapid.SampledFrom([]string{"", "x1", "x2"}).Draw(t, "route")})
	}
	usage := coordinator.Usage{InputTokens: float64(rapid.IntRange(0, 60).Draw(t, "input")),
		OutputTokens: float64(rapid.IntRange(0, 60).Draw(t, "output"))}
	if rapid.IntRange(0, 7).Draw(t, "as much as may be said at 0") == 0 {
		usage = coordinator.Usage{Requests: 1e12, InputTokens: 1e12, OutputTokens: 1e12, CostUSD: 1e6}
	}
	usage.Provider = rapid.SampledFrom(append(quotaProviders, "")).Draw(t, "provider")
	return coordinator.Call{
		Heard: heard, Routes: routes,
		Op:        coordinator.CallOp(rapid.IntRange(0, coordinator.NumCallOps-1).Draw(t, "operation")),
		Key:       coordinator.KeyOf(coordinator.TaskID("call:" + rapid.SampledFrom(callIDs).Draw(t, "call"))),
		Keep:      rapid.Bool().Draw(t, "keep"),
		Agent:     rapid.SampledFrom(agentIDs).Draw(t, "agent"),
		Group:     rapid.SampledFrom(quotaGroups).Draw(t, "group"),
		OwnOnly:   rapid.Bool().Draw(t, "for itself"),
		Operation: rapid.SampledFrom([]string{"", "chat"}).Draw(t, "operation's name"),
		Meant: rapid.SampledFrom([]coordinator.UsageMeant{coordinator.UsageEstimated, coordinator.UsageExact,
			coordinator.UsageEstimated, coordinator.UsagePart}).Draw(t, "meant"),
		Seats:        rapid.Int64Range(0, 2).Draw(t, "seats"),
		NoBorrowing:  rapid.Bool().Draw(t, "no borrowing"),
		Priority:     coordinator.Priority(rapid.IntRange(0, 3).Draw(t, "priority")),
		TTL:          seconds(t, "ttl", 0, 1, 20, 600),
		ChargeUntold: rapid.Bool().Draw(t, "charge untold"),
		Usage:        usage,
	}
}

// question asks what only looks. That it changes nothing shows when the history is played again without it.
func (h *history) question(t *rapid.T) {
	h.do(coordinator.Tick{})
	task := &coordinator.Task{
		ID: "asked", Type: rapid.SampledFrom([]string{"any", "one", "none"}).Draw(t, "type"), AcceptedAt: h.now,
		Priority: coordinator.Priority(rapid.IntRange(0, 3).Draw(t, "priority")),
	}
	h.charge(t, task)
	h.e.Explain(h.now, task)
	if len(h.e.HeldTasks()) > 0 {
		held := h.e.HeldTask(rapid.SampledFrom(slices.Sorted(maps.Keys(h.e.HeldTasks()))).Draw(t, "of which"))
		h.e.Explain(h.now, held.Task())
		h.e.Place(h.now, held.Task())
	}
	c := drawCall(t)
	q := &engine.QuotaQuestion{Group: c.Group, Agent: c.Agent, Type: c.Operation, Usage: c.Usage,
		NoBorrowing: c.NoBorrowing, Routes: c.Routes}
	a, ok := h.e.Quotas(h.now).Explain(q)
	all := h.e.Quotas(h.now).Snapshot(1000, nil)
	if quotas := h.e.Policy().Quotas; ok != (quotas != nil) || all.Installed != ok || ok &&
		len(all.Nodes) != len(quotas.Nodes) {
		t.Fatalf("there are quotas: %v; %+v, %d nodes", ok, a, len(all.Nodes))
	}
	for _, n := range all.Nodes {
		for _, b := range n.Budgets {
			if min(b.Used, b.Reserved, b.Nominal) < 0 {
				t.Fatalf("%s: less than nothing: %+v", n.ID, b)
			}
		}
	}
}

// quotasGo has quotas.yaml be taken away, and put back, as it was or otherwise, some time later: what was
// set aside meanwhile stands.
func (h *history) quotasGo(t *rapid.T) {
	p := *h.e.Policy()
	if p.Quotas != nil {
		h.gone, p.Quotas = p.Quotas, nil
	} else if p.Quotas = h.gone; p.Quotas == nil || rapid.Bool().Draw(t, "otherwise") {
		p.Quotas = drawQuotas(t)
	}
	h.do(coordinator.PolicyChanged{Policy: &p})
}

// askCalls asks about one call, or several of them, and holds the answers against what they
// promise.
func (h *history) askCalls(t *rapid.T) {
	h.needSession(t)
	ev := coordinator.CallAsked{Token: 7}
	seen := make(map[coordinator.TaskKey]bool)
	for range rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(t, "calls") {
		if c := drawCall(t); !seen[c.Key] { // what is asked about the same twice at once is the asker's fault
			seen[c.Key] = true
			ev.Calls = append(ev.Calls, c)
		}
	}
	h.do(coordinator.Tick{}) // what has expired stands no more
	was := make([]bool, len(ev.Calls))
	for i, c := range ev.Calls {
		was[i] = h.e.Ledger().IsOpen(c.Key)
	}
	h.do(ev)
	h.checkCalls(ev, was)
}

// checkCalls: what was granted stands, or is settled; where one of several was refused nothing was
// set aside for any.
func (h *history) checkCalls(ev coordinator.CallAsked, was []bool) {
	h.t.Helper()
	var answered *coordinator.CallAnswered
	for _, f := range h.steps[len(h.steps)-1].effects {
		if a, is := f.(*coordinator.CallAnswered); is {
			answered = a
		}
	}
	if answered == nil || answered.Token != ev.Token || len(answered.Answers) != len(ev.Calls) {
		h.t.Fatalf("what was asked about %d calls is answered by %+v", len(ev.Calls), answered)
	}
	l, all := h.e.Ledger(), true
	for i, a := range answered.Answers {
		all = all && (a.State == coordinator.CallGranted || !llmcalls.Asks(ev.Calls[i].Op))
	}
	for i, c := range ev.Calls {
		a := answered.Answers[i]
		open := l.IsOpen(c.Key)
		switch {
		case c.Op == coordinator.CallCheck, c.Op == coordinator.CallExtend, a.Standing:
			if open != was[i] {
				h.t.Fatalf("%+v: it stood %v, and stands %v: %+v", c, was[i], open, a)
			}
		case c.Op == coordinator.CallSettle, c.Op == coordinator.CallRelease:
			if left := a.State == coordinator.CallDoubted || a.State == coordinator.CallUnknown; left && open != was[i] ||
				!left && open || a.State == coordinator.CallGranted && c.Op == coordinator.CallRelease && !was[i] {
				h.t.Fatalf("%+v: it stands, or ended twice: %+v", c, a)
			}
		case c.Op == coordinator.CallCharge:
			if open != was[i] && !a.Standing {
				h.t.Fatalf("%+v: it stood %v, and stands %v: %+v", c, was[i], open, a)
			}
		case !all || c.Op != coordinator.CallReserve:
			if open != was[i] {
				h.t.Fatalf("%+v: it stood %v, and stands %v, all granted: %v: %+v", c, was[i], open, all, a)
			}
		case a.State == coordinator.CallGranted && open == a.Until.IsZero():
			h.t.Fatalf("%+v: open %v, until %v", c, open, a.Until)
		}
		if a.State == coordinator.CallRefused && a.Lacks == nil {
			h.t.Fatalf("%+v is refused without a reason", c)
		}
		h.checkRoutes(&c, &a)
		h.checkLimits(&c, &a)
	}
}

// checkLimits: a refusal says first what is left of the limit that refuses, which is less than
// what was asked; how many calls may be open is no limit of a quota, nor is it one that a model has no price.
func (h *history) checkLimits(c *coordinator.Call, a *coordinator.CallAnswer) {
	h.t.Helper()
	if a.Lacks == nil || a.Lacks.Limit == "open" || a.Lacks.Limit == "price" || a.State != coordinator.CallRefused &&
		a.State != coordinator.CallNever {
		return
	}
	if len(a.Limits) == 0 {
		h.t.Fatalf("%+v is refused, and of no limit is told what is left: %+v", c, a.Lacks)
	}
	x := &a.Limits[0]
	if x.Node != a.Lacks.Node || x.Dimension != a.Lacks.Dimension || x.Limit != a.Lacks.Limit {
		h.t.Fatalf("%+v is refused by %+v, and told of %+v first", c, a.Lacks, x)
	}
	if asked := a.Amounts[x.Dimension]; x.Left < 0 || c.Op != coordinator.CallExtend && x.Left >= max(1, asked) {
		h.t.Fatalf("%+v asks for %d, is refused, and %d are left: %+v", c, asked, x.Left, x)
	}
}

// checkRoutes: a call that has a choice is refused only where all of it refuses, and stands in the
// pool that was chosen; no pool of a provider with keys is called by the provider's name alone.
func (h *history) checkRoutes(c *coordinator.Call, a *coordinator.CallAnswer) {
	h.t.Helper()
	l := h.e.Ledger()
	if len(l.Keys(a.Provider)) > 0 && !a.Standing && llmcalls.Asks(c.Op) {
		h.t.Fatalf("%+v goes to %s, which is no key", c, a.Provider)
	}
	for _, r := range a.Routes {
		if a.State == coordinator.CallRefused && r.Lacks == nil {
			h.t.Fatalf("%+v is refused, and could go to %s: %+v", c, r.Pool, a)
		}
		if charge, open, _ := l.Find(c.Key); open && r.Chosen && c.Op != coordinator.CallCheck &&
			charge.Provider != r.Provider {
			h.t.Fatalf("%+v is to go to %s, and stands in %s", c, r.Provider, charge.Provider)
		}
	}
}

func showCalls(ev coordinator.CallAsked) string {
	s := "calls"
	for _, c := range ev.Calls {
		s += fmt.Sprintf(" {%d %x %s of %q %v+%v meant %d seats %d ttl %v}", c.Op, c.Key[0]>>48, c.Agent, c.Group,
			c.Usage.InputTokens, c.Usage.OutputTokens, c.Meant, c.Seats, c.TTL.Seconds())
	}
	return s
}

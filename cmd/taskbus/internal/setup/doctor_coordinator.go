package setup

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/view"
)

// checkCoordinator asks the coordinator itself, if one answers.
func (d *doctor) checkCoordinator(ctx context.Context) {
	const check = "coordinator"
	c, err := d.app.NewClient(*d.url)
	if err != nil {
		d.report.add(check, checkProblem, err.Error(), "")
		return
	}
	_, checks := c.Instances(ctx)
	before := d.app.Now()
	s, err := c.Status(ctx)
	after := d.app.Now()
	all := cli.WithInstances(s.Health, checks).Checks
	for _, name := range []string{cli.CheckLeader, cli.CheckStandbys} {
		if k, ok := all[name]; ok {
			d.report.add(check, severity(k.Status), k.Detail, k.Advice)
		}
	}
	switch {
	case err != nil && d.led:
		d.report.add(check, checkWarning, "a coordinator leads, and none answers here: "+err.Error(),
			"ask where it runs, with --url or TASKBUS_HTTP_URL")
		return
	case err != nil:
		d.report.add(check, checkWarning, err.Error(), "")
		return
	}
	for _, f := range d.judgeCoordinator(&s, before.Add(after.Sub(before)/2)) {
		d.report.add(f.Check, f.State, f.Text, f.Advice)
	}
	var q view.Quotas
	if err := c.Get(ctx, "/v1/quota?limit=1", &q); err == nil { // a coordinator before this one says nothing of prices
		for _, f := range judgePrices(q.Unpriced) {
			d.report.add(f.Check, f.State, f.Text, f.Advice)
		}
	}
}

// judgePrices reports models without a price that were named where money is limited.
func judgePrices(models []view.UnpricedModel) (found []diagnosis) {
	for i := range models {
		m := &models[i]
		text := fmt.Sprintf("%s has no price, and cost_usd of %s is limited: %d of its calls and tasks were refused",
			m.Name(), m.Node, m.Refused)
		if m.Admitted > 0 {
			text = fmt.Sprintf(
				"%s has no price, and cost_usd of %s is limited: %d of its calls and tasks passed, %d were refused",
				m.Name(), m.Node, m.Admitted, m.Refused)
		}
		found = append(found, diagnosis{"prices", checkWarning, text,
			"give it a price under prices in quotas.yaml, or say there what becomes of such models: unpriced"})
	}
	return found
}

// judgeCoordinator reads /status, which was answered at that time by our clock.
func (d *doctor) judgeCoordinator(s *view.Status, at time.Time) (found []diagnosis) {
	const check = "coordinator"
	add := func(check, state, text, advice string) {
		found = append(found, diagnosis{check, state, text, advice})
	}
	who := fmt.Sprintf("%s (%s)", s.Instance, s.Version)
	switch s.Readiness.State {
	case "active":
		add(check, checkOK, who+" leads and takes tasks", "")
	case "standby":
		add(check, checkOK, strings.TrimSuffix(who+" stands by: "+s.Readiness.Detail, ": "), "")
	case "blocked":
		add(check, checkProblem, who+": "+s.Readiness.Detail,
			"end the broker's memory or disk alarm: rabbitmqctl status, rabbitmq-diagnostics alarms")
	default:
		text := fmt.Sprintf("%s is %s: %s", who, s.Readiness.State, s.Readiness.Detail)
		add(check, checkProblem, strings.TrimSuffix(text, ": "), "see its log")
	}
	if offset := s.Now.Sub(at); offset.Abs() > clockTolerance {
		add("clocks", checkWarning, fmt.Sprintf("the coordinator's clock is %s %s this machine's", roughly(offset),
			map[bool]string{true: "ahead of", false: "behind"}[offset > 0]),
			"keep both by NTP: deadlines are judged by the coordinator's")
	}
	switch c := s.Config; {
	case !c.LastReloadOK:
		add(check, checkWarning, "its file "+c.Path+" is broken, and the configuration before it in force: "+
			c.LastReloadError, "`taskbus check "+c.Path+"` lists every fault")
	case d.cfg != nil && c.Version != d.cfg.FileVersion():
		add(check, checkWarning, fmt.Sprintf("it works by version %s of %s, and what is read here is version %s",
			c.Version, c.Path, d.cfg.FileVersion()),
			"have it read its files again (SIGHUP), or name the same here: --config, --quotas, ASSIGNMENT_STRATEGY")
	}
	if c := s.Health.Checks["config"]; s.Config.LastReloadOK && c.Status == view.Degraded {
		add("configuration", checkWarning, "that of "+who+" is valid and probably not meant: "+c.Detail,
			"correct "+s.Config.Path+"; docs/runbooks/TaskbusConfigDoubtful.md")
	}
	if u := s.UnknownFields; len(u) > 0 {
		fields := make([]string, len(u))
		for i, f := range u {
			fields[i] = cli.OneLine(fmt.Sprintf("%s in %s of %s", f.Field, f.MessageType,
				cmp.Or(f.Producer, "an unknown producer")))
			if f.DidYouMean != "" {
				fields[i] += " (" + cli.OneLine(f.DidYouMean) + ")"
			}
		}
		add("messages", checkWarning, "fields that no schema has, and that have no effect: "+joinSome(fields),
			"correct the producer; strict_messages in agents.yaml refuses such messages")
	}
	if a := s.Audit; a.Violations > 0 {
		var codes []string
		for _, v := range a.Found {
			codes = append(codes, v.Invariant)
		}
		slices.Sort(codes)
		add("audit", checkProblem, "its books do not balance: "+strings.Join(slices.Compact(codes), ", "),
			"a fault of Taskbus: keep its log, report it, and start the coordinator again; see "+
				"docs/runbooks/TaskbusAuditViolation.md")
	}
	if j := s.Journal; j != nil && j.Lost != nil {
		add("journal", checkProblem,
			fmt.Sprintf("the journal was empty at %s, although %s; begun anew: %s; used budgets: %s",
				j.Lost.At.UTC().Format(time.RFC3339), strings.Join(j.Lost.Evidence, ", and "),
				strings.Join(j.Lost.BeginsAnew, "; "), j.Lost.Budgets),
			"docs/howto/backup.md#when-the-journal-is-lost; when all is put right, `taskbus journal acknowledge`")
	}
	if s.Readiness.State == "active" {
		add(d.judgeFleet(s))
		for _, name := range slices.Sorted(maps.Keys(s.Health.Checks)) {
			switch c := s.Health.Checks[name]; {
			case name == "agents", name == "broker", name == "config": // judged above
			case name == "journal" && s.Journal != nil && s.Journal.Lost != nil: // likewise
			case c.Status != view.Healthy:
				add(name, severity(c.Status), c.Detail, c.Advice)
			}
		}
	}
	return found
}

// severity is the state of a check for a word of /health.
func severity(status string) string {
	switch status {
	case view.Healthy:
		return checkOK
	case view.Degraded:
		return checkWarning
	}
	return checkProblem
}

// judgeFleet is what /health finds wrong with the agents, else what is seen of them here.
func (d *doctor) judgeFleet(s *view.Status) (check, state, text, advice string) {
	check, state, text, advice = d.judgeAgents(s)
	c, said := s.Health.Checks["agents"]
	if said && c.Status != view.Healthy {
		_, missing, _ := strings.Cut(text, "; not: ")
		state, text, advice = severity(c.Status), c.Detail+cli.After("; not online: ", missing),
			cmp.Or(c.Advice, advice)
	}
	return check, state, text, advice
}

// judgeAgents sums up which agents are there to do the work.
func (d *doctor) judgeAgents(s *view.Status) (check, state, text, advice string) {
	online, missing := 0, []string{}
	for _, g := range s.Agents {
		if g.Online() {
			online++
		} else {
			missing = append(missing, fmt.Sprintf("%s (%s)", g.ID, g.State)) // in the words of `taskbus agents`
		}
	}
	text = fmt.Sprintf("%d of %s online", online, cli.Count(len(s.Agents), "agent"))
	switch {
	case len(missing) == 0 && online > 0:
		return "agents", checkOK, text, ""
	case online == 0:
		return "agents", checkWarning, text, "start agents; `taskbus agents` shows when each was heard last"
	}
	return "agents", checkWarning, text + "; not: " + joinSome(missing),
		"`taskbus agents` shows when each was heard last"
}

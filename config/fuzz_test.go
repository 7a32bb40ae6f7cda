package config

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"taskbus/config/yamlconf"
	"taskbus/coordinator"
	"taskbus/coordinator/strategy"
	"taskbus/tests/support/configtest"
)

// Whatever the bytes, Parse gives a configuration the engine can rely on, or
// faults that say where.
func FuzzParse(f *testing.F) {
	for _, data := range testFiles(f) {
		f.Add(data)
	}
	for _, seed := range []string{
		"agents: {auth: off}", "agents: {auth: no}", "a: &a [*a]", "? ", "{", "[", "- - - -", "\ufeffagents: {}",
		"agents: {a: {max_concurrent_tasks: 1}}\r\n---\r\n", "%YAML 1.1\n---\nagents: {}", "\"\\x00\": 1",
		"agents: !!binary aGk=",
		"!!map {agents: {}}", "agents: {2001-01-01: {max_concurrent_tasks: 1}}", "...", "---\n...\n---",
		"global_settings: {seed: -0}",
		"agents: {}\nassignment_strategies: {capability_match: , expression: {formula: \"1/0 + labels.a\"}}",
		"agents: {}\nassignment_strategies: {capability_match: , expression: {formula: \"\\x01 'a\\n\"}}",
		"agents: {}\nassignment_strategies: {capability_match: , expression: {formula: \"task_type.matches('a{2}') ? 1 : " +
			"0\"}}",
		"agents: {}\nassignment_strategies: {capability_match: , expression: {formula: \"labels.a.matches(task_labels.b) " +
			"? 1 : 0\"}}",
		strings.Repeat("[", 20_000), strings.Repeat("a: ", 5_000), strings.Repeat("- ", 20_000), strings.Repeat("? ", 2_000),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data, "agents.yaml")
		if err == nil {
			checkPolicy(t, c)
			return
		}
		configtest.CheckFaults(t, err, data)
	})
}

// checkPolicy holds what coordinator.Policy promises.
func checkPolicy(t *testing.T, c *Config) {
	p := c.Policy()
	ids := make([]coordinator.AgentID, 0, len(p.Agents))
	for _, a := range p.Agents {
		ids = append(ids, a.ID)
		ok := yamlconf.ID.Pattern.MatchString(string(a.ID)) && a.Queue != "" && len(a.Queue) <= 255 &&
			!coordinator.ReservedQueue(a.Queue) &&
			a.MaxConcurrent >= 1 && a.Rank >= 1 && a.Rank <= 5 && a.HealthCheckInterval > 0 && a.AcceptTimeout > 0 &&
			a.HealthCheckInterval < p.Settings.StaleAfter && a.Timeout > 0 && a.Timeout <= p.Settings.MaxTimeout
		if !ok || !sortedUnique(a.Capabilities) || !(a.SuccessRate >= 0 && a.SuccessRate <= 1) ||
			!(a.Cost >= 0 && a.Cost <= maxCost) || len(a.Labels) > maxLabels || a.Pull > coordinator.PullLiteral {
			t.Errorf("agent %+v", a)
		}
	}
	if !sortedUnique(ids) {
		t.Errorf("agents %v", ids)
	}
	if queues := c.AgentQueues(); !sortedUnique(queues) {
		t.Errorf("queues %v", queues)
	}
	if g := p.Discovery; g != nil && (slices.ContainsFunc(g.Queues, coordinator.ReservedQueue) ||
		g.AdmitsQueue("x", "agent.y")) {
		t.Errorf("queues %v may be announced", g.Queues)
	}
	if !sortedUnique(p.StrategyNames()) || !slices.Contains(p.StrategyNames(), p.Strategy) {
		t.Errorf("strategy %s of %v", p.Strategy, p.StrategyNames())
	}
	for i := range p.Strategies {
		checkStrategy(t, &p.Strategies[i])
	}
	for taskType, route := range p.Routes {
		if !sortedUnique(route.Required) || !sortedUnique(route.Preferred) || route.Strategy != "" &&
			!slices.Contains(p.StrategyNames(), route.Strategy) {
			t.Errorf("route %q: %+v", taskType, route)
		}
		if b := route.Batch; b != (coordinator.Batch{}) &&
			(b.MaxSize < 2 || b.MaxSize > 1000 || b.MaxWait < time.Millisecond || b.MaxWait > time.Minute) {
			t.Errorf("route %q: %+v", taskType, b)
		}
		if route.Batch.MaxSize > 0 && cmp.Or(route.Strategy, p.Strategy) == strategy.MarketName {
			t.Errorf("route %q: batches are put up for bids", taskType)
		}
		for _, id := range route.Preferred {
			if !slices.Contains(ids, id) {
				t.Errorf("route %q prefers %q, which does not exist", taskType, id)
			}
		}
	}
	if d := p.Discovery; d != nil {
		a := d.Template
		ok := len(d.Agents) > 0 && sortedUnique(d.Agents) && len(d.Capabilities) > 0 && sortedUnique(d.Capabilities) &&
			d.MaxAgents >= 1 && d.MaxAgents <= 10_000 && d.MaxConcurrent >= 1 && d.ForgetAfter > 0 &&
			a.ID == "" && a.Queue == "" && a.Rank >= 1 && a.Rank <= 5 && a.AcceptTimeout > 0 &&
			a.HealthCheckInterval > 0 && a.HealthCheckInterval < p.Settings.StaleAfter && a.Timeout > 0 &&
			a.Timeout <= p.Settings.MaxTimeout
		if !ok {
			t.Errorf("discovery %+v", d)
		}
	}
	s := p.Settings
	if s.PoisonedAfter < 1 || s.MaxRetryAttempts < 0 || s.MaxQueueSize < 1 || s.AssignmentTimeout < 0 ||
		s.AssignmentTimeout > time.Minute ||
		!(s.MaxLoad > 0 && s.MaxLoad <= 1) || slices.Min(s.Priorities.Weights[:]) < 1 || s.DedupeWindow <= 0 ||
		s.DedupeMaxIDs < 1 {
		t.Errorf("settings %+v", s)
	}
	l, b := s.Learning, s.Breaker
	if !(l.Prior > 0 && l.Prior < 1) || !(l.PriorWeight > 0) || l.HalfLife < time.Second || !(l.HalfLifeOutcomes >= 1) ||
		b.Consecutive < 1 || b.Base < time.Second || b.Longest < b.Base || !(b.MaxShare > 0 && b.MaxShare <= 1) ||
		s.DeadIntervals > 0 && s.DeadIntervals <= s.SuspectIntervals || s.SlowStart < 0 {
		t.Errorf("settings %+v", s)
	}
	if len(p.Version) != 12 || c.Window < 1 || c.WindowBytes < int64(c.MaxMessageBytes) || c.MaxMessageBytes > 8<<20 ||
		c.ShutdownGrace <= 0 || c.HTTPBind == "" {
		t.Errorf("config %+v", c)
	}
}

// checkStrategy asks a strategy for the key of an agent and what it explains.
func checkStrategy(t *testing.T, s *coordinator.Strategy) {
	if !strategy.Known(s.Name) || len(s.Terms) == 0 || len(s.Terms) > coordinator.MaxTerms ||
		!(s.Exploration >= 0 && s.Exploration <= 1) {
		t.Errorf("strategy %+v", s)
		return
	}
	if m := s.Market; (m != nil) != (s.Name == strategy.MarketName) || m != nil &&
		!(m.Floor >= 100*time.Millisecond && m.Floor <= m.Ceiling && m.Ceiling <= time.Minute) {
		t.Errorf("strategy %s: market %+v", s.Name, m)
	}
	c := &coordinator.Case{Task: &coordinator.Task{}}
	if s.Prepare != nil {
		s.Prepare(c)
	}
	standing := &coordinator.Standing{Success: 0.9}
	s.Key(c, &coordinator.AgentView{Max: 1, Free: 1, Rank: 3}, standing)
	if s.Explain != nil {
		s.Explain(c, &coordinator.AgentView{Max: 1, Free: 1, Rank: 3}, standing, &coordinator.TermValues{})
	}
}

func sortedUnique[S ~string](list []S) bool {
	for i := 1; i < len(list); i++ {
		if list[i-1] >= list[i] {
			return false
		}
	}
	return true
}

package engine_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/strategy"
)

var (
	abilities = []string{"c1", "c2", "c3", "c4"}
	listed    = []coordinator.AgentID{"a", "b", "c", "d", "e", "f"}
	anyone    = append(slices.Clone(listed), "x1", "x2", "x3") // x* may join by themselves
	groups    = []string{"", "g1", "g2", "g3", "g4", "m3", "stranger"}
	providers = []string{"p", "p", "p@b"}
	models    = []string{"", "x1", "x2", "unlisted"}
	lanes     = []string{coordinator.LaneHeld, coordinator.LaneOther, "g1", "g2", "g1~1", "gone"}
	// faults are what becomes of a publish that is not confirmed; the last two end the session.
	faults = []coordinator.PublishOutcome{
		coordinator.PublishUnroutable, coordinator.PublishRejected, coordinator.PublishNotSent,
		coordinator.PublishUnknown, coordinator.PublishAbandoned,
	}
)

// drawAnyPolicy draws an agents.yaml and a quotas.yaml.
func (w *world) drawAnyPolicy() *coordinator.Policy {
	c := &w.chance
	p := &coordinator.Policy{
		Version: fmt.Sprint("policy ", w.events), Strategies: w.drawStrategies(),
		Strategy: pick(
			c, "capability_match", "least_loaded", "priority_based", "round_robin", "load_balanced", "reward_rate",
			"weighted", strategy.MarketName,
		),
		Routes: map[string]coordinator.Route{
			"any": {
				Batch:   pick(c, coordinator.Batch{}, coordinator.Batch{MaxSize: 3, MaxWait: time.Second}),
				MaxWait: c.seconds(0, 0, 40),
			},
			"one": {
				Required: some(c, 2, abilities...), Strategy: pick(c, "", "", "round_robin"),
				Batch: pick(c, coordinator.Batch{}, coordinator.Batch{MaxSize: 2, MaxWait: 100 * time.Millisecond}),
			},
			"two": {Required: []string{"c1", "c2"}, Preferred: some(c, 2, listed...)},
			"bid": {Strategy: strategy.MarketName},
		},
		Settings: coordinator.Settings{
			MaxRetryAttempts: 1 + c.n(3), PoisonedAfter: 1 + c.n(2), StaleAfter: c.seconds(20, 60),
			MaxQueueSize:      pick(c, w.or(50, 2), 8, 50, 200),
			AssignmentTimeout: time.Duration(pick(c, w.or(900, 0), w.or(120, 5), 30, 30, 900)) * time.Second,
			CountsWaiting:     c.oneIn(2), MaxLoad: 0.9, BusyIsEligible: c.oneIn(3), MaxTimeout: c.seconds(0, 0, 600),
			Priorities:   w.drawPriorities(),
			DedupeWindow: c.seconds(60, 3600, 864_000), DedupeMaxIDs: pick(c, 5, 60, 100_000, 100_000),
			RefuseBacklogged: c.oneIn(3),
			Breaker:          coordinator.Breaker{Consecutive: c.n(2), Off: c.oneIn(4), Base: c.seconds(0, 5)},
			SuspectIntervals: c.n(2), DeadIntervals: pick(c, 0, 0, 3), SlowStart: c.seconds(0, 0, 20), Seed: 7,
		},
	}
	if p.Lanes = pick(c, nil, []string{}, []string{"g1"}, []string{"g1", "g2"}); p.Lanes != nil {
		p.LaneRoom, p.LanesAbove = c.n(3), map[string]string{"g3": "g1"}
	}
	for _, id := range listed {
		if !w.rarely(6) {
			p.Agents = append(p.Agents, coordinator.AgentSpec{
				ID: id, Queue: pick(c, "agent.", "agent.", "agent.", "work.") + string(id),
				Capabilities: some(c, w.or(9, 4), abilities...), MaxConcurrent: 1 + c.n(3), Rank: 1 + c.n(4),
				HealthCheckInterval: 10 * time.Second, Timeout: c.seconds(5, 60, 60), AcceptTimeout: time.Minute,
				SuccessStated: c.oneIn(8), SuccessRate: 0.5,
				Cost: float64(c.n(2)), Labels: map[string]string{"zone": pick(c, "r1", "r2")},
				Pull: pick(
					c, coordinator.PullOff, coordinator.PullOff, coordinator.PullOff, coordinator.PullOff,
					coordinator.PullShared, coordinator.PullLiteral,
				),
			})
		}
	}
	if !c.oneIn(3) {
		p.Discovery = &coordinator.Discovery{
			Agents: []string{"x*"}, Capabilities: abilities[:1+c.n(3)], Queues: []string{"q*"}, MaxAgents: 1 + c.n(2),
			MaxConcurrent: 2, ForgetAfter: c.seconds(1, 60),
			Template: coordinator.AgentSpec{
				Rank: 3, HealthCheckInterval: 10 * time.Second, Timeout: time.Minute, AcceptTimeout: time.Minute,
			},
		}
	}
	if !c.oneIn(4) {
		p.Quotas = w.drawQuotas()
	}
	return p
}

func (w *world) drawPriorities() coordinator.PriorityOrder {
	weights := [coordinator.Priorities]int64{1, 1, 2, 9}
	return pick(
		&w.chance, coordinator.PriorityOrder{}, coordinator.PriorityOrder{},
		coordinator.PriorityOrder{Strict: true}, coordinator.PriorityOrder{Weights: weights},
	)
}

// drawStrategies has a formula that may give a score to none, and an own market.
func (w *world) drawStrategies() []coordinator.Strategy {
	never := w.chance.oneIn(3)
	formula := func(c *coordinator.Case, a *coordinator.AgentView, _ *coordinator.Standing) (float64, error) {
		if never && c.Task.Priority%2 == 1 {
			return 0, errors.New("odd priorities have none")
		}
		return float64(a.Free), nil
	}
	s, err := strategy.Build(strategy.ExpressionName, strategy.Options{FormulaText: "f", Formula: formula})
	if err != nil {
		panic(err)
	}
	all := append(slices.Clone(strategy.All()), s)
	for i := range all {
		if all[i].Market != nil {
			own := *all[i].Market
			own.FirstMatch, own.InviteAll, own.Reported = w.chance.oneIn(3), w.chance.oneIn(2), w.chance.oneIn(2)
			all[i].Market = &own
		}
	}
	slices.SortFunc(all, func(a, b coordinator.Strategy) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// drawQuotas draws trees of quotas that bind.
func (w *world) drawQuotas() *coordinator.Quotas {
	c := &w.chance
	q := &coordinator.Quotas{
		Unpriced: coordinator.UnpricedRule(w.or(1, 0) + c.n(w.or(1, 2))), AnyCaller: !c.oneIn(3),
		UnpricedPrice: coordinator.Price{InputPerMillion: 1_000_000}, RepayPercent: pick[int64](c, 0, 20, 100),
		ReservationTTL: c.seconds(30, 900), TombstoneTTL: c.seconds(20, 3600), DefaultOutput: 40,
		Routing: coordinator.RouteTerms{Remaining: 1, Price: 1, Latency: 1, Success: 1},
		Prices: pick(c, nil, []coordinator.Price{
			{Provider: "p", PerRequest: 1, InputPerMillion: 1e6, OutputPerMillion: 2e6},
		}),
	}
	if c.oneIn(3) { // of days that end soon
		q.Adjustment = coordinator.Adjustment{
			Idle: &coordinator.IdleRule{BelowPercent: 50, Days: 1, Step: 1, MinWeight: 1},
			Slow: &coordinator.SlowRule{Above: time.Second, Percent: 10, MaxPercent: 20},
		}
		q.Location = time.FixedZone("soon", int((12*time.Hour - c.seconds(10, 60, 300)).Seconds()))
	}
	add := func(n coordinator.QuotaNode) int {
		if n.ID = n.Name; n.Parent >= 0 {
			n.ID = q.Nodes[n.Parent].ID + "/" + n.Name
		}
		w.drawLimits(&n, q.Nodes)
		q.Nodes = append(q.Nodes, n)
		return len(q.Nodes) - 1
	}
	places := []int{add(coordinator.QuotaNode{Kind: coordinator.QuotaPool, Name: "pool", Parent: -1, Weight: 1})}
	for _, name := range groups[1:5] {
		n := coordinator.QuotaNode{
			Kind: coordinator.QuotaGroup, Name: name, Parent: pick(c, places...), Weight: int64(w.or(1, 0) + c.n(3)),
			Borrowing: w.drawBorrowing(),
		}
		if c.oneIn(3) {
			n.Provider, n.Model = "p", pick(c, "", "x1")
		}
		places = append(places, add(n))
	}
	if c.oneIn(4) { // more wait than try at one time
		for i := range 20 {
			add(coordinator.QuotaNode{Kind: coordinator.QuotaGroup, Name: fmt.Sprint("m", i), Weight: int64(i % 3)})
		}
	}
	if c.oneIn(2) {
		for _, id := range listed[:3] {
			add(coordinator.QuotaNode{
				Kind: coordinator.QuotaAgent, Name: string(id), Parent: pick(c, places[1:]...), Weight: 1,
				Borrowing: w.drawBorrowing(),
			})
		}
	}
	for _, pool := range pick(c, nil, []string{"p"}, []string{"p"}, []string{"p@a", "p@b"}) {
		top := add(coordinator.QuotaNode{Kind: coordinator.QuotaPool, Name: pool, Provider: pool, Parent: -1, Weight: 1})
		shared := []int{top}
		for _, model := range models[1 : 1+c.n(2)] {
			shared = append(shared, add(coordinator.QuotaNode{
				Kind: coordinator.QuotaModel, Name: model, Provider: pool, Model: model, Parent: top, Weight: 1,
			}))
		}
		if len(shared) > 1 {
			shared = shared[1:]
		}
		for _, at := range shared {
			for _, name := range groups[1:3] {
				if c.oneIn(2) {
					add(coordinator.QuotaNode{
						Kind: coordinator.QuotaGroup, Name: name, Provider: pool, Model: q.Nodes[at].Model, Parent: at,
						Weight: int64(w.or(1, 0) + c.n(3)), Borrowing: w.drawBorrowing(),
					})
				}
			}
		}
	}
	return q
}

func (w *world) drawBorrowing() coordinator.Borrowing {
	c := &w.chance
	return coordinator.Borrowing{
		Rule: pick(
			c, coordinator.BorrowAccrued, coordinator.BorrowAccrued, coordinator.BorrowNever, coordinator.BorrowGroupRemaining,
		),
		NoGlobalPool: c.oneIn(2), Priority: c.n(1), SurchargePercent: pick[int64](c, 0, 0, 10),
		HeadroomPercent: pick[int64](c, 0, 0, 20),
	}
}

// drawLimits draws what a node may use: an eighth at most of what the one above it may, or its part by
// weight.
func (w *world) drawLimits(n *coordinator.QuotaNode, above []coordinator.QuotaNode) {
	c := &w.chance
	limit := func(get func(*coordinator.QuotaNode) *coordinator.QuotaLimit, most int) *coordinator.QuotaLimit {
		var up *coordinator.QuotaLimit
		for p := n.Parent; p >= 0 && up == nil; p = above[p].Parent {
			up = get(&above[p])
		}
		if c.n(2) > 0 {
			return nil
		}
		if up == nil {
			return &coordinator.QuotaLimit{Nominal: int64(w.or(40, 0) + w.or(40, 1)*c.n(most))}
		}
		l := &coordinator.QuotaLimit{Nominal: coordinator.ByWeight, Period: up.Period, Per: up.Per}
		if n.Kind == coordinator.QuotaModel || up.Nominal != coordinator.ByWeight && c.oneIn(2) {
			l.Nominal = int64(w.or(2, 0) + c.n(int(max(0, up.Nominal/8))))
		}
		if n.Kind == coordinator.QuotaModel && c.n(3) > 0 {
			l.Borrow, l.Lend = coordinator.Bound{Kind: coordinator.BoundAmount}, coordinator.Bound{Kind: coordinator.BoundAmount}
		}
		return l
	}
	unit := pick(c, coordinator.PerMinute, coordinator.PerMinute, coordinator.PerHour)
	most := [coordinator.DimConcurrency]int{20, 0, 600, 2000, 1e9}
	for d, most := range most {
		if most == 0 {
			continue
		}
		n.Budgets[d] = limit(func(x *coordinator.QuotaNode) *coordinator.QuotaLimit { return x.Budgets[d] }, most)
		if b := n.Budgets[d]; b != nil && b.Period == (coordinator.Period{}) {
			b.Period.Unit = unit
		}
	}
	rate := func(x *coordinator.QuotaNode) *coordinator.QuotaLimit { return x.Rates[coordinator.DimRequests] }
	if r := limit(rate, 12); r != nil {
		if r.Per == 0 {
			r.Per = c.seconds(1, 60)
		}
		r.Burst = int64(c.n(3))
		n.Rates[coordinator.DimRequests] = r
	}
	n.Seats = limit(func(x *coordinator.QuotaNode) *coordinator.QuotaLimit { return x.Seats }, 5)
}

// controlled are quotas with standing controls: of weights, and of what total_tokens a node may use.
func controlled(q *coordinator.Quotas, standing []coordinator.QuotaControl) *coordinator.Quotas {
	if q == nil || len(standing) == 0 {
		return q
	}
	with := *q
	with.Nodes = slices.Clone(q.Nodes)
	for _, one := range standing {
		at := slices.IndexFunc(with.Nodes, func(n coordinator.QuotaNode) bool { return n.ID == one.Target })
		value, err := strconv.Atoi(strings.TrimSuffix(one.Value, "%"))
		if at < 0 || err != nil {
			continue
		}
		switch n := &with.Nodes[at]; one.Key {
		case "weight":
			if n.Weight = int64(value); one.Kind == coordinator.ControlBoost {
				n.Weight = max(0, q.Nodes[at].Weight+int64(value))
			}
		case "total_tokens":
			if b := n.Budgets[coordinator.DimTotalTokens]; b != nil && b.Nominal > 0 {
				own := *b
				own.Nominal += own.Nominal * int64(value) / 100
				n.Budgets[coordinator.DimTotalTokens] = &own
			}
		}
	}
	return &with
}

func allNodes(*coordinator.QuotaNode, string) bool { return true }

// drawControl draws what an operator changes.
func (w *world) drawControl() coordinator.QuotaControl {
	c := &w.chance
	one := pick(c,
		coordinator.QuotaControl{Kind: coordinator.ControlSet, Key: "weight", Value: pick(c, "1", "2", "5")},
		coordinator.QuotaControl{
			Kind: coordinator.ControlBoost, Key: "total_tokens", Value: pick(c, "+50%", "+100%", "-20%"),
		},
		coordinator.QuotaControl{
			Kind: coordinator.ControlCorrect, Key: pick(c, "total_tokens", "requests"), Value: pick(c, "-30", "20"),
		},
	)
	one.Target, one.At, one.By = "pool/g1", w.now, "ann"
	if ids := w.engine.Quotas(w.now).IDs(allNodes); len(ids) > 0 {
		one.Target = pick(c, ids...)
	}
	if c.oneIn(2) {
		one.Until = w.now.Add(c.seconds(5, 30, 90))
	}
	return one.Named()
}

func (w *world) drawUsage() *coordinator.Usage {
	c := &w.chance
	switch {
	case c.oneIn(3):
		return nil
	case w.rarely(15):
		return &coordinator.Usage{Requests: 1e15, InputTokens: 1e15, OutputTokens: 1e15, CostUSD: 1e15}
	}
	u := &coordinator.Usage{
		InputTokens: pick(c, 0.0, 10, 100), OutputTokens: pick(c, 0.0, 1, 30, 100), CostUSD: pick(c, 0.0, 0, 0.00001),
	}
	if c.oneIn(3) {
		u.Provider, u.Model = pick(c, providers...), pick(c, models...)
	}
	return u
}

func (w *world) drawServices(most int) (all []coordinator.Service) {
	for range w.chance.n(most) {
		all = append(all, coordinator.Service{Provider: pick(&w.chance, providers...), Model: pick(&w.chance, models...)})
	}
	return all
}

func (w *world) drawTask() *coordinator.Task {
	c := &w.chance
	task := &coordinator.Task{
		ID: coordinator.TaskID(fmt.Sprint("t", w.handle)), Type: pick(c, "any", "any", "any", "one", "two", "bid"),
		Priority:   coordinator.Priority(c.n(3)),
		AcceptedAt: w.now, ContentHash: 1, Group: pick(c, groups...), EstimatedUsage: w.drawUsage(), NoBorrowing: c.oneIn(6),
	}
	if w.rarely(10) {
		task.Type = "strange"
	}
	if w.rarely(4) {
		task.ID = coordinator.TaskID(fmt.Sprint("t", c.n(int(w.handle))))
	}
	if w.rarely(3) {
		task.Required, task.Excluded, task.Preferred = some(c, 2, abilities...), some(c, 1, listed...), some(c, 2, listed...)
		task.WidenAfter, task.Timeout = c.seconds(0, 1, 20), c.seconds(0, 0, 30, 604_800)
		task.MaxWait = c.seconds(0, 0, 10, 604_800)
		task.Strategy = pick(c, "", "", strategy.ExpressionName, strategy.MarketName, "nothing")
		task.AcceptedAt, task.ContentHash = w.now.Add(-c.seconds(0, 0, 100)), uint64(1+c.n(1))
	}
	if c.oneIn(5) {
		task.Alternatives = w.drawServices(3)
	}
	if w.rarely(5) {
		task.Deadline = w.now.Add(c.seconds(0, 5, 20, 86_400))
	}
	return task
}

// drawCall draws what is asked or told about a call; the ids are few, so that it is often not the first.
func (w *world) drawCall() coordinator.Call {
	c := &w.chance
	call := coordinator.Call{
		Op: pick(c, coordinator.CallReserve, coordinator.CallReserve, coordinator.CallReserve, coordinator.CallExtend,
			coordinator.CallSettle, coordinator.CallSettle,
			coordinator.CallRelease, coordinator.CallCheck, coordinator.CallConsume, coordinator.CallCharge),
		Key: coordinator.KeyOf(coordinator.TaskID(fmt.Sprint("call:c", c.n(11)))), Keep: c.oneIn(2),
		Agent: pick(c, append(listed, "")...), Group: pick(c, groups...), OwnOnly: c.oneIn(2),
		Admitted: c.oneIn(8), Operation: pick(c, "", "chat"), Meant: coordinator.UsageMeant(c.n(4)),
		Seats: int64(c.n(2)), NoBorrowing: c.oneIn(4), Priority: coordinator.Priority(c.n(3)),
		TTL: c.seconds(0, 1, 20, 600), ChargeUntold: c.oneIn(3), Routes: w.drawServices(2),
		Usage: coordinator.Usage{
			InputTokens: float64(c.n(60)), OutputTokens: float64(c.n(60)), Provider: pick(c, append(providers, "")...),
			Model: pick(c, models...),
		},
	}
	if c.oneIn(10) {
		call.Usage.Requests, call.Usage.InputTokens = 1e12, 1e12
	}
	if c.oneIn(4) {
		call.Asked = call.HashAsked()
	}
	if c.oneIn(2) {
		call.Heard = &coordinator.ProviderWord{
			Status: pick(c, 0, 200, 200, 200, 429, 429, 503), RetryAfter: c.seconds(0, 0, 5, 90), Told: uint8(c.n(15)),
			Remains: coordinator.Amounts{int64(c.n(5)), 3, 3, 3}, Latency: c.seconds(0, 1, 7),
		}
	}
	return call
}

func (w *world) drawReport(id coordinator.AgentID) coordinator.AgentReport {
	c := &w.chance
	r := coordinator.AgentReport{
		Agent: id, Status: coordinator.StatusReady, Available: 3, Timestamp: w.now, ActiveTasks: w.at(id),
		Queue: "agent." + string(id), Capabilities: abilities[:1],
	}
	r.Active = len(r.ActiveTasks)
	if id == "b" || id == "d" { // say no more than how many
		r.ActiveTasks = nil
	}
	if !w.rarely(2) {
		return r
	}
	r.Status, r.Load = pick(
		c, coordinator.StatusReady, coordinator.StatusReady, coordinator.StatusReady, coordinator.StatusBusy,
		coordinator.StatusOffline,
	), pick(c, 0, 0, 0.5, 0.9, 1)
	r.Available, r.MaxConcurrent, r.Active = pick(c, 0, 1, 3, 3, 1_000_000), c.n(2), pick(c, r.Active, r.Active, 0, 4)
	r.Capabilities, r.Queue = some(c, 3, abilities...), pick(c, "", "q1", "q2", "agent.a")
	r.Instance, r.Relayed = pick(c, "", "i1", "i2"), c.oneIn(8)
	r.HasCapacity, r.Capacity, r.HasPending, r.Pending = c.oneIn(2), pick(c, 0, 0.1, 4), c.oneIn(2), pick(c, 0, 1, 100)
	r.Timestamp = pick(c, w.now, w.now, w.now, w.now.Add(-time.Second), w.now.Add(-time.Minute), w.now.Add(time.Hour))
	return r
}

// fitness is what an agent may say of itself in a bid.
func (w *world) fitness() float64 { return pick(&w.chance, 0, 0.3, 0.5, 0.9, 1, 1.5, math.NaN()) }

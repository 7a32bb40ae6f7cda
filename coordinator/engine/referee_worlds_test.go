package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/strategy"
)

// special is a world in which something is frequent that is rare in those of the seeds: many lanes, seats,
// claims of a large fleet, and so on. A new one is added at the end of specials.
type special struct {
	name    string
	seeds   int
	events  int // of each, after the fleet is there
	policy  func(*world) *coordinator.Policy
	actions func(*world) []action
}

var specials = []special{
	{"lanes", 6, 2000, (*world).lanesPolicy, (*world).laneActions},
	{"seats", 6, 900, (*world).seatsPolicy, (*world).seatActions},
	{"calls", 3, 900, (*world).callsPolicy, (*world).callActions},
	{"claims", 3, 500, (*world).claimsPolicy, (*world).claimActions},
	{"deaths", 3, 900, (*world).deathsPolicy, (*world).deathActions},
	{"waits", 3, 700, (*world).waitsPolicy, (*world).waitActions},
	{"asks", 2, 700, (*world).asksPolicy, (*world).askActions},
	{"market", 3, 900, (*world).marketPolicy, (*world).marketActions},
	{"crowd", 1, 300, (*world).crowdPolicy, (*world).crowdActions},
	{"pulls", 3, 700, (*world).pullsPolicy, (*world).pullActions},
	{"rests", 2, 800, (*world).lanesPolicy, (*world).restActions},
	{"hours", 2, 400, (*world).hoursPolicy, (*world).hourActions},
	{"silent", 2, 400, (*world).silentPolicy, (*world).silentActions},
}

// basicPolicy is one of n agents of which each third can do c1, c2, or both, without surprises.
func (w *world) basicPolicy(n int) *coordinator.Policy {
	c := &w.chance
	p := &coordinator.Policy{
		Version: fmt.Sprint("policy ", w.events), Strategies: strategy.All(),
		Strategy: pick(c, "capability_match", "least_loaded", "round_robin"),
		Routes: map[string]coordinator.Route{
			"any": {}, "one": {Required: []string{"c1"}}, "two": {Required: []string{"c2"}},
			"many": {Batch: coordinator.Batch{MaxSize: 3, MaxWait: time.Second}},
			"bid":  {Strategy: strategy.MarketName},
		},
		Settings: coordinator.Settings{
			MaxRetryAttempts: 3, PoisonedAfter: 3, StaleAfter: time.Hour, MaxQueueSize: 1000,
			AssignmentTimeout: time.Hour, MaxLoad: 0.9, DedupeWindow: time.Hour, DedupeMaxIDs: 100_000, Seed: 7,
		},
	}
	for i := range n {
		id := fmt.Sprintf("w%03d", i)
		p.Agents = append(p.Agents, coordinator.AgentSpec{
			ID: coordinator.AgentID(id), Queue: "agent." + id, MaxConcurrent: 1 + c.n(2), Rank: 3,
			Capabilities:        [][]string{{"c1"}, {"c2"}, {"c1", "c2"}}[i%3],
			HealthCheckInterval: 10 * time.Second, Timeout: time.Minute, AcceptTimeout: time.Minute,
		})
	}
	return p
}

// someone is an agent of the policy.
func (w *world) someone() coordinator.AgentID {
	return w.policy.Agents[w.chance.n(len(w.policy.Agents)-1)].ID
}

// tree are quotas of a pool and of groups in it.
func tree(pool coordinator.QuotaNode, groups ...coordinator.QuotaNode) *coordinator.Quotas {
	pool.Kind, pool.Name, pool.ID, pool.Parent, pool.Weight = coordinator.QuotaPool, "pool", "pool", -1, 1
	q := &coordinator.Quotas{
		ReservationTTL: time.Minute, TombstoneTTL: time.Hour, DefaultOutput: 40, AnyCaller: true,
		Nodes: []coordinator.QuotaNode{pool},
	}
	for _, n := range groups {
		n.Kind, n.ID = coordinator.QuotaGroup, q.Nodes[n.Parent].ID+"/"+n.Name
		q.Nodes = append(q.Nodes, n)
	}
	return q
}

// send delivers a task of the group.
func (w *world) send(taskType, group string, p coordinator.Priority, change ...func(*coordinator.Task)) {
	if !w.open {
		w.openSession()
	}
	w.deliver(func(h coordinator.Handle) coordinator.Event {
		task := &coordinator.Task{
			ID: coordinator.TaskID(fmt.Sprint("t", h)), Type: taskType, Priority: p, Group: group, AcceptedAt: w.now,
			ContentHash: 1,
		}
		for _, f := range change {
			f(task)
		}
		return coordinator.TaskReceived{Handle: h, Task: task}
	})
}

// confirmAll has the broker confirm what is published.
func (w *world) confirmAll() {
	for len(w.published) > 0 {
		d := w.published[0]
		w.published = w.published[1:]
		w.working = append(w.working, d)
		w.apply(coordinator.DispatchSettled{Handle: d.Handle, Outcome: coordinator.PublishConfirmed})
	}
}

// succeed has so many dispatches end well, if there are as many.
func (w *world) succeed(most int) {
	for range most {
		if len(w.working) == 0 {
			return
		}
		d := take(&w.chance, &w.working)
		w.apply(coordinator.ResultReported{Live: true, Result: coordinator.Result{
			Task: d.Task.ID, Agent: d.Agent, DispatchID: d.DispatchID, Timestamp: w.now, Usage: d.Task.EstimatedUsage,
			Duration: time.Second,
		}})
	}
}

func (w *world) finishSome() { w.succeed(1 + w.chance.n(3)) }

// step lets a short time go by.
func (w *world) step(choices ...float64) { w.stepTo(w.now.Add(w.chance.seconds(choices...))) }

func (w *world) stepTo(end time.Time) {
	for most := w.events + 100; w.events < most; {
		at, due := w.engine.NextDeadline()
		if !due || at.After(end) {
			break
		}
		w.now = coordinator.Later(w.now, at)
		w.apply(coordinator.Tick{})
	}
	w.now = coordinator.Later(w.now, end)
	w.apply(coordinator.Tick{})
}

func (w *world) shortly() { w.step(0.001, 0.02, 0.1, 0.5, 1, 3) }

// Lanes: of more groups than are read at once.

func (w *world) lanesPolicy() *coordinator.Policy {
	c := &w.chance
	p := w.basicPolicy(4)
	p.Lanes, p.LaneRoom = []string{}, 8+c.n(40)
	var all []coordinator.QuotaNode
	for i := range 90 {
		name := fmt.Sprint("l", i)
		if p.Lanes = append(p.Lanes, name); c.oneIn(2) {
			all = append(all, coordinator.QuotaNode{Name: name, Weight: int64(1 + c.n(3))})
		}
	}
	slices.Sort(p.Lanes)
	if !c.oneIn(3) {
		p.Quotas = tree(coordinator.QuotaNode{}, all...)
	}
	p.Settings.MaxTimeout = c.seconds(0, 0, 300)
	return p
}

func (w *world) laneActions() []action {
	return []action{
		{5, w.flood}, {4, w.confirmAll}, {4, w.finishSome}, {5, w.moveAll}, {5, w.comeOutSome}, {5, w.lookAtAll},
		{5, w.shortly}, {1, func() { w.step(10, 15.5, 61) }}, {2, w.beside}, {1, w.endLane}, {1, w.moveFails},
		{2, w.cancel}, {1, w.comeEarly}, {1, w.reweigh}, {1, w.muster}, {1, w.rarelyTakeOver}, {1, w.rarelyAsk},
		{1, w.rarelyOvernight}, {1, w.withdrawMoving},
	}
}

// rarelyOvernight has more wait than may be on their way at once, or all of them wait for long.
func (w *world) rarelyOvernight() {
	switch w.chance.n(7) {
	case 0:
		for range 30 {
			w.flood()
		}
	case 1:
		w.step(600, 630)
	}
}

// withdrawMoving has a task be cancelled that is on its way into its lane, and not taken there.
func (w *world) withdrawMoving() {
	if len(w.moves) == 0 {
		return
	}
	m := take(&w.chance, &w.moves)
	w.token++
	w.apply(coordinator.CancelRequested{Task: m.Task.ID, Reason: "not wanted", Token: w.token})
	outcome := pick(&w.chance, coordinator.PublishConfirmed, coordinator.PublishRejected, coordinator.PublishNotSent)
	if outcome == coordinator.PublishConfirmed {
		w.lanes = append(w.lanes, inLane{m.Lane, m.Task, m.MaybeDuplicate})
	}
	w.apply(coordinator.LaneMoved{Handle: m.Handle, Outcome: outcome})
}

// flood sends a task of each of many groups, or many of one.
func (w *world) flood() {
	first, same := w.chance.n(89), w.chance.oneIn(3)
	for i := range 5 + w.chance.n(25) {
		if same {
			i = 0
		}
		w.send(
			pick(&w.chance, "any", "any", "one", "two"), fmt.Sprint("l", (first+i)%90),
			pick(
				&w.chance, coordinator.PriorityNormal, coordinator.PriorityNormal, coordinator.PriorityHigh,
				coordinator.PriorityLow,
			),
		)
	}
}

func (w *world) moveAll() {
	for len(w.moves) > 0 {
		m := w.moves[0]
		w.moves = w.moves[1:]
		w.lanes = append(w.lanes, inLane{m.Lane, m.Task, m.MaybeDuplicate})
		w.apply(coordinator.LaneMoved{Handle: m.Handle, Outcome: coordinator.PublishConfirmed})
	}
}

// moveFails has a move not be confirmed.
func (w *world) moveFails() {
	if len(w.moves) == 0 {
		return
	}
	m := take(&w.chance, &w.moves)
	outcome := pick(&w.chance, faults...)
	w.apply(coordinator.LaneMoved{Handle: m.Handle, Outcome: outcome})
	if outcome == coordinator.PublishUnknown || outcome == coordinator.PublishAbandoned {
		w.loseSession()
	}
}

func (w *world) comeOutSome() {
	for range 1 + w.chance.n(3) {
		w.comeOut()
	}
}

// comeEarly has a lane hand out what was moved there before the broker confirms it.
func (w *world) comeEarly() {
	if len(w.moves) == 0 || !w.open {
		return
	}
	m := w.moves[w.chance.n(len(w.moves)-1)]
	for range 1 + w.chance.n(1) {
		w.deliver(func(h coordinator.Handle) coordinator.Event {
			return coordinator.TaskReceived{Handle: h, Task: m.Task, Lane: m.Lane}
		})
	}
}

// lookAtAll looks at all lanes that are to be looked at; what was not seen to come is there now and then.
func (w *world) lookAtAll() {
	for len(w.drops) > 0 {
		w.apply(coordinator.LaneSeen{Lane: take(&w.chance, &w.drops), Dropped: true, Missing: !w.chance.oneIn(4)})
	}
	ready := make(map[string]int)
	for _, m := range w.lanes {
		ready[m.lane]++
	}
	for _, key := range w.engine.LanesWatched(w.now, 100) {
		if w.chance.oneIn(30) {
			ready[key] += w.chance.n(80)
		}
		w.apply(coordinator.LaneSeen{Lane: key, Ready: ready[key], Missing: ready[key] == 0 && w.chance.oneIn(5)})
	}
}

// beside has a lane beside that of a group hold something, as a leader before this one may have left it.
func (w *world) beside() {
	key := fmt.Sprint("l", w.chance.n(89))
	if w.chance.oneIn(4) {
		key += "~1"
	}
	w.apply(coordinator.LaneSeen{Lane: key, Ready: 1 + w.chance.n(3)})
}

func (w *world) endLane() {
	if keys := slices.Sorted(maps.Keys(w.reading)); len(keys) > 0 {
		w.apply(coordinator.LaneEnded{Lane: pick(&w.chance, keys...)})
	}
}

// reweigh has groups get other weights, and other room.
func (w *world) reweigh() {
	p := *w.policy
	if p.LaneRoom = 4 + w.chance.n(60); p.Quotas != nil {
		q := *p.Quotas
		q.Nodes = slices.Clone(q.Nodes)
		for i := range q.Nodes {
			q.Nodes[i].Weight = int64(1 + w.chance.n(3))
		}
		p.Quotas = &q
	}
	w.policy = &p
	w.apply(coordinator.PolicyChanged{Policy: w.withControls()})
}

func (w *world) rarelyTakeOver() {
	if w.chance.oneIn(6) {
		w.takeOver()
	}
}

func (w *world) rarelyAsk() {
	if w.chance.oneIn(4) {
		w.ask()
	}
}

// Seats: of nested groups that compete for them, with agents that can do some tasks only.

func (w *world) seatsPolicy() *coordinator.Policy {
	c := &w.chance
	p := w.basicPolicy(6)
	p.Strategies = w.drawStrategies()
	for i := range p.Agents {
		p.Agents[i].MaxConcurrent = pick(c, 1, 3, 10)
	}
	seats := func(n int) *coordinator.QuotaLimit { return &coordinator.QuotaLimit{Nominal: int64(n)} }
	node := func(parent int, name string) coordinator.QuotaNode {
		n := coordinator.QuotaNode{Name: name, Parent: parent, Weight: int64(1 + c.n(2)), Borrowing: w.drawBorrowing()}
		if n.Seats = seats(1 + c.n(1)); c.oneIn(3) {
			n.Seats.Nominal = coordinator.ByWeight
		}
		return n
	}
	pool := coordinator.QuotaNode{Seats: seats(3 + c.n(4))}
	if c.oneIn(3) {
		pool.Rates[coordinator.DimRequests] = &coordinator.QuotaLimit{Nominal: int64(3 + c.n(10)), Per: c.seconds(1, 10)}
	}
	all := []coordinator.QuotaNode{node(0, "d"), node(1, "g1"), node(1, "g2"), node(0, "g3"), node(0, "g4")}
	if c.oneIn(2) {
		for i := range 30 {
			all = append(all, node(0, fmt.Sprint("m", i)))
		}
	}
	p.Quotas = tree(pool, all...)
	if c.oneIn(3) {
		w.ownQuota(p)
	}
	if c.oneIn(2) { // a lacks something else, too
		p.Quotas.Nodes[1+c.n(3)].Budgets[coordinator.DimRequests] = &coordinator.QuotaLimit{
			Nominal: int64(5 + c.n(30)), Period: coordinator.Period{Unit: coordinator.PerMinute},
		}
	}
	p.Settings.Priorities = w.drawPriorities()
	return p
}

// ownQuota gives some agents quota of their own.
func (w *world) ownQuota(p *coordinator.Policy) {
	c := &w.chance
	for i := range p.Agents[:3] {
		n := coordinator.QuotaNode{Kind: coordinator.QuotaAgent, Name: string(p.Agents[i].ID), Parent: 2 + c.n(1), Weight: 1}
		n.ID = p.Quotas.Nodes[n.Parent].ID + "/" + n.Name
		if n.Seats = (&coordinator.QuotaLimit{Nominal: int64(1 + c.n(1))}); c.oneIn(2) {
			n.Rates[coordinator.DimRequests] = &coordinator.QuotaLimit{Nominal: 3, Per: 10 * time.Second}
		}
		p.Quotas.Nodes = append(p.Quotas.Nodes, n)
	}
}

func (w *world) seatActions() []action {
	return []action{
		{8, w.sendSeats}, {6, w.confirmAll}, {8, w.finishSome}, {5, w.shortly}, {1, func() { w.step(20, 61) }},
		{2, w.cancel}, {2, w.comeAndGo}, {2, w.callForSeats}, {1, w.rejectSome}, {1, w.changeAll}, {1, w.control},
		{1, w.rarelyTakeOver}, {1, w.rarelyAsk}, {1, w.expire},
	}
}

// expire has what is set aside for calls end by itself.
func (w *world) expire() { w.step(61, 301) }

func (w *world) sendSeats() {
	group, crowd := pick(&w.chance, "g1", "g2", "g3", "g4", ""), w.chance.oneIn(6)
	for range 1 + w.chance.n(pick(&w.chance, 4, 4, 20)) {
		if crowd {
			group = fmt.Sprint("m", w.chance.n(29))
		}
		taskType := pick(&w.chance, "any", "one", "two")
		w.send(taskType, group, coordinator.Priority(w.chance.n(3)), func(task *coordinator.Task) {
			if task.NoBorrowing = w.chance.oneIn(8); w.chance.oneIn(8) {
				task.Strategy = strategy.ExpressionName
			}
		})
	}
}

// comeAndGo has an agent say that it is offline, or ready.
func (w *world) comeAndGo() {
	id := w.someone()
	w.now = w.now.Add(time.Millisecond)
	r := coordinator.AgentReport{
		Agent: id, Status: pick(&w.chance, coordinator.StatusOffline, coordinator.StatusReady, coordinator.StatusReady),
		Available: 10, Timestamp: w.now, ActiveTasks: w.at(id), Active: len(w.at(id)),
	}
	w.apply(coordinator.AgentReported{Live: true, Report: r})
}

func (w *world) rejectSome() {
	if len(w.working) == 0 {
		return
	}
	d := take(&w.chance, &w.working)
	w.comeBack(d, pick(&w.chance, coordinator.ReturnRejected, coordinator.ReturnExpired), false)
}

func (w *world) changeAll() {
	w.policy = w.drawPolicy()
	w.apply(coordinator.PolicyChanged{Policy: w.withControls()})
}

// Calls: that are extended while they are open, now and then under no quotas any more.

func (w *world) callsPolicy() *coordinator.Policy {
	p := w.seatsPolicy()
	switch last := p.Quotas.Nodes[len(p.Quotas.Nodes)-1]; {
	case w.chance.oneIn(4):
		p.Quotas = nil
	case last.Kind != coordinator.QuotaAgent:
		w.ownQuota(p)
	}
	return p
}

func (w *world) callActions() []action {
	return []action{
		{10, w.callForSeats}, {10, w.callAgain}, {3, w.sendSeats}, {3, w.confirmAll}, {2, w.finishSome}, {3, w.shortly},
		{1, func() { w.step(20, 61, 600) }}, {1, w.changeAll}, {1, w.rarelyTakeOver}, {1, w.rarelyAsk},
	}
}

func (w *world) callForSeats() { w.call(coordinator.CallReserve, w.chance.n(5)) }

// callAgain asks for more of a call, or ends it.
func (w *world) callAgain() {
	op := pick(
		&w.chance, coordinator.CallExtend, coordinator.CallExtend, coordinator.CallExtend, coordinator.CallExtend,
		coordinator.CallSettle, coordinator.CallRelease,
	)
	w.call(op, w.chance.n(5))
}

func (w *world) call(op coordinator.CallOp, of int) {
	c := &w.chance
	w.token++
	call := coordinator.Call{
		Op: op, Key: coordinator.KeyOf(coordinator.TaskID(fmt.Sprint("call:c", of))),
		Group: []string{"g1", "g2", "g3", "g4", "g1", "g3"}[of], OwnOnly: of%2 == 0, Seats: int64(c.n(1)), Keep: c.oneIn(4),
		TTL: c.seconds(0, 0, 20, 300), Priority: coordinator.Priority(c.n(3)),
	}
	if c.oneIn(4) { // that may borrow nothing, or has debts
		call.Meant, call.Usage.Requests = coordinator.UsageExact, 1
	}
	if call.OwnOnly {
		call.Agent, call.Group = w.policy.Agents[of/2].ID, ""
	}
	if op != coordinator.CallReserve && c.oneIn(2) || op == coordinator.CallReserve && c.oneIn(4) {
		call.Usage = coordinator.Usage{InputTokens: float64(c.n(60)), OutputTokens: float64(c.n(60))}
	}
	w.apply(coordinator.CallAsked{Token: w.token, Calls: []coordinator.Call{call}})
}

// Claims: of a fleet so large that plans are used again.

func (w *world) claimsPolicy() *coordinator.Policy {
	p := w.basicPolicy(400)
	for i := range p.Agents {
		p.Agents[i].MaxConcurrent = 2
		if p.Agents[i].Pull = coordinator.PullShared; i%40 == 7 {
			p.Agents[i].Pull = pick(&w.chance, coordinator.PullLiteral, coordinator.PullOff)
		}
	}
	p.Agents = p.Agents[:pick(&w.chance, 400, 400, 100)]
	return p
}

func (w *world) claimActions() []action {
	return []action{
		{6, w.sendOne}, {2, w.sendSome}, {8, w.claimAll}, {4, w.confirmAll}, {3, w.finishSome},
		{6, func() { w.step(0.003, 0.02, 0.04) }}, {3, func() { w.step(0.1, 0.105, 0.5, 1, 2) }}, {1, w.comeAndGo},
		{1, w.cancel},
	}
}

// Pulls: of a few agents that have more than their part, or something of others.

func (w *world) pullsPolicy() *coordinator.Policy {
	p := w.basicPolicy(5 + w.chance.n(5))
	for i := range p.Agents {
		p.Agents[i].MaxConcurrent = 4
		p.Agents[i].Pull = pick(
			&w.chance, coordinator.PullShared, coordinator.PullShared, coordinator.PullShared, coordinator.PullLiteral,
		)
	}
	p.Settings.Breaker = coordinator.Breaker{Consecutive: 1, Base: 5 * time.Second}
	return p
}

func (w *world) pullActions() []action {
	return []action{
		{5, w.sendSome}, {8, w.claimWithWork}, {4, w.confirmAll}, {4, w.finishSome},
		{4, func() { w.step(0.1, 0.5, 1, 1.5, 4) }}, {2, w.lull},
		{1, w.comeAndGo}, {1, w.cancel}, {1, w.failSome}, {1, w.musterOnTime}, {1, w.rarelyAsk},
	}
}

// claimWithWork has an agent claim that has work of others, and does little of it in a second.
func (w *world) claimWithWork() {
	c := &w.chance
	w.token++
	w.apply(coordinator.ClaimReceived{
		Agent: w.someone(), ClaimID: fmt.Sprint("c", w.token), MaxItems: 1 + c.n(3), Pending: c.n(6),
		Capacity: pick(c, 0, 0.05, 0.2, 4), Wait: c.seconds(0, 2, 5, 20), Token: w.token,
	})
}

// lull has one agent wait for what is kept for others, which have claimed and are silent then.
func (w *world) lull() {
	for range 1 + w.chance.n(2) {
		w.claimWithWork()
	}
	w.sendSome()
	w.token++
	w.apply(coordinator.ClaimReceived{
		Agent: w.someone(), ClaimID: fmt.Sprint("c", w.token), MaxItems: 4, Pending: w.chance.n(3), Capacity: 0.2,
		Wait: time.Minute, Token: w.token,
	})
	w.step(9, 12, 31)
}

func (w *world) failSome() {
	for range 1 + w.chance.n(2) {
		if len(w.working) == 0 {
			return
		}
		d := take(&w.chance, &w.working)
		w.apply(coordinator.ResultReported{Live: true, Result: coordinator.Result{
			Task: d.Task.ID, Agent: d.Agent, DispatchID: d.DispatchID, Timestamp: w.now, Outcome: coordinator.OutcomeFailed,
			Duration: time.Second, Error: "out of memory",
		}})
	}
}

func (w *world) sendOne() {
	w.send(pick(&w.chance, "one", "two", "any"), "", coordinator.PriorityNormal)
}

func (w *world) sendSome() {
	taskType := pick(&w.chance, "one", "two", "any")
	for range 2 + w.chance.n(6) {
		w.send(taskType, "", coordinator.PriorityNormal)
	}
}

// claimAll has many agents claim, each a task or two, and wait for it.
func (w *world) claimAll() {
	c := &w.chance
	n := len(w.policy.Agents)
	first, many := c.n(n-1), 1+c.n(2)
	if c.oneIn(4) {
		many = n
	}
	wait := c.seconds(0, 2, 20, 20)
	for i := range many {
		w.token++
		w.apply(coordinator.ClaimReceived{
			Agent: w.policy.Agents[(first+i)%n].ID, ClaimID: fmt.Sprint("c", w.token), MaxItems: 1 + c.n(1), Pending: c.n(1),
			Capacity: pick(c, 0.0, 1, 4), Wait: wait, Token: w.token,
		})
	}
}

// Deaths: several agents die at once with work in hand.

func (w *world) deathsPolicy() *coordinator.Policy {
	c := &w.chance
	p := w.basicPolicy(9)
	for i := range p.Agents {
		p.Agents[i].MaxConcurrent = 1 + c.n(3)
	}
	s := &p.Settings
	s.StaleAfter, s.SuspectIntervals, s.DeadIntervals, s.PoisonedAfter = time.Minute, 1+c.n(1), 2+c.n(1), 1+c.n(2)
	s.MaxRetryAttempts, s.SlowStart = 2+c.n(3), c.seconds(0, 20)
	s.Breaker = coordinator.Breaker{Consecutive: c.n(2), Base: 5 * time.Second}
	if c.oneIn(3) {
		p.Quotas = w.seatsPolicy().Quotas
	}
	return p
}

func (w *world) deathActions() []action {
	return []action{
		{6, w.sendSeats}, {5, w.confirmAll}, {3, w.finishSome}, {4, w.dieTogether}, {4, w.beats}, {4, w.lookAtDead},
		{3, w.answer}, {5, w.returnOfDead}, {3, func() { w.step(0.5, 3, 10) }}, {1, func() { w.step(20, 61) }},
		{2, w.revive}, {1, w.cancel}, {1, w.order}, {1, w.loseSession}, {1, w.rarelyTakeOver}, {1, w.rarelyAsk},
	}
}

// dieTogether has agents that have something die, which is known only by their silence.
func (w *world) dieTogether() {
	w.confirmAll()
	for _, d := range w.working {
		if !slices.Contains(w.dead, d.Agent) && len(w.dead) < 4 && w.chance.oneIn(2) {
			w.dead = append(w.dead, d.Agent)
		}
	}
}

// beats has those that live report, each what it runs.
func (w *world) beats() {
	w.now = w.now.Add(time.Duration(1+w.chance.n(5)) * time.Second)
	for i := range w.policy.Agents {
		if id := w.policy.Agents[i].ID; !slices.Contains(w.dead, id) {
			w.beat(id)
		}
	}
}

// beat has an agent report that it is ready, and what it runs.
func (w *world) beat(id coordinator.AgentID) {
	w.apply(coordinator.AgentReported{Live: true, Report: coordinator.AgentReport{
		Agent: id, Status: coordinator.StatusReady, Available: 4, Timestamp: w.now, ActiveTasks: w.at(id),
		Active: len(w.at(id)),
	}})
}

func (w *world) lookAtDead() {
	for _, watched := range w.engine.Watched(w.now, 20) {
		gone := slices.Contains(w.dead, watched.Agent)
		consumers := 1
		if gone {
			consumers = 0
		}
		for range 2 {
			w.apply(coordinator.QueueSeen{Agent: watched.Agent, Ready: w.chance.n(1), Consumers: consumers})
		}
	}
}

// returnOfDead has what dead agents had come back: taken back from their queues, or when its time to be
// accepted is over.
func (w *world) returnOfDead() {
	if !w.open {
		w.openSession()
	}
	for i := len(w.working) - 1; i >= 0; i-- {
		d := w.working[i]
		if !slices.Contains(w.dead, d.Agent) || w.chance.oneIn(3) {
			continue
		}
		w.working = slices.Delete(w.working, i, i+1)
		cause := coordinator.ReturnExpired
		if w.takenBack[d.Agent] {
			cause = coordinator.ReturnTakenBack
		}
		w.comeBack(d, cause, cause == coordinator.ReturnTakenBack && w.chance.n(3) > 0)
	}
}

// revive has dead agents come back, with what they had or without.
func (w *world) revive() {
	if w.chance.oneIn(2) {
		w.working = slices.DeleteFunc(w.working, func(d *coordinator.Dispatch) bool {
			return slices.Contains(w.dead, d.Agent)
		})
	}
	w.dead = nil
	w.beats()
}

// Waits: time goes by in tens of seconds, so that bounds are met exactly.

func (w *world) waitsPolicy() *coordinator.Policy {
	c := &w.chance
	p := w.basicPolicy(3)
	s := &p.Settings
	s.AssignmentTimeout, s.CountsWaiting, s.MaxTimeout = c.seconds(10, 30, 600), c.oneIn(6), c.seconds(0, 0, 1200)
	limit := func(nominal int) *coordinator.QuotaLimit {
		return &coordinator.QuotaLimit{Nominal: int64(nominal), Period: coordinator.Period{Unit: coordinator.PerHour}}
	}
	pool := coordinator.QuotaNode{}
	if pool.Budgets[coordinator.DimRequests] = limit(3 + c.n(3)); c.oneIn(2) {
		pool.Budgets[coordinator.DimRequests], pool.Rates[coordinator.DimRequests] = nil, &coordinator.QuotaLimit{
			Nominal: 6, Per: time.Hour, Burst: int64(1 + c.n(2)), // one in ten minutes
		}
	}
	p.Quotas = tree(pool, coordinator.QuotaNode{Name: "g1", Weight: 1}, coordinator.QuotaNode{Name: "g2", Weight: 2})
	if c.oneIn(3) {
		p.Quotas.Nodes[0].Seats = &coordinator.QuotaLimit{Nominal: 2}
	}
	return p
}

func (w *world) waitActions() []action {
	return []action{
		{6, w.sendWaiting}, {4, w.confirmAll}, {4, w.finishSome}, {6, func() { w.step(10, 10, 20, 30) }},
		{2, func() { w.step(60, 290, 300, 310, 600) }}, {1, func() { w.step(1800, 3600) }}, {2, w.comeAndGo},
		{2, w.musterOnTime}, {1, w.changeAll}, {1, w.rarelyAsk},
	}
}

func (w *world) sendWaiting() {
	for range 1 + w.chance.n(2) {
		taskType, group := pick(&w.chance, "any", "one", "two"), pick(&w.chance, "g1", "g2", "")
		w.send(taskType, group, coordinator.Priority(w.chance.n(3)), func(task *coordinator.Task) {
			task.MaxWait = w.chance.seconds(0, 0, 0, 60, 600)
		})
	}
}

// musterOnTime has every agent report, and no time go by.
func (w *world) musterOnTime() {
	for i := range w.policy.Agents {
		w.beat(w.policy.Agents[i].ID)
	}
}

// Asks: agents give tasks back and ask not to be given them for a time, of tasks that are old.

func (w *world) asksPolicy() *coordinator.Policy {
	p := w.basicPolicy(4)
	p.Settings.MaxRetryAttempts = 1 + w.chance.n(3)
	return p
}

func (w *world) askActions() []action {
	return []action{
		{6, w.sendOld}, {5, w.confirmAll}, {2, w.finishSome}, {8, w.askForTime}, {4, func() { w.step(1, 5, 10, 30) }},
		{1, func() { w.step(60, 600) }}, {1, w.muster}, {1, w.cancel}, {1, w.batchAndCancel}, {1, w.rarelyTakeOver},
		{1, w.rarelyAsk},
	}
}

func (w *world) sendOld() {
	w.send(pick(&w.chance, "any", "one", "two"), "", coordinator.PriorityNormal, func(task *coordinator.Task) {
		task.AcceptedAt = w.now.Add(-w.chance.seconds(0, 0, 1700, 1790, 1800, 1810))
		if w.chance.oneIn(3) {
			task.Preferred, task.WidenAfter = []coordinator.AgentID{w.someone()}, w.chance.seconds(1, 10)
		}
	})
}

// askForTime has an agent say when it may be given a task again, before its message comes back or afterwards.
func (w *world) askForTime() {
	if len(w.working) == 0 || !w.open {
		return
	}
	c := &w.chance
	d := take(c, &w.working)
	word := coordinator.ResultReported{Live: true, Result: coordinator.Result{
		Task: d.Task.ID, Agent: d.Agent, DispatchID: d.DispatchID, Timestamp: w.now, Attempted: c.oneIn(2),
		Outcome: coordinator.OutcomeRejected, RetryAfter: c.seconds(0, 5, 10, 30, 600), Error: "429",
	}}
	if c.oneIn(2) {
		w.apply(word)
		w.comeBack(d, coordinator.ReturnRejected, false)
		return
	}
	w.comeBack(d, coordinator.ReturnRejected, false)
	if w.now = w.now.Add(c.seconds(0, 0, 0.1, 1)); !c.oneIn(4) {
		w.apply(word)
	}
}

// batchAndCancel has one of some that wait for a batch be cancelled.
func (w *world) batchAndCancel() {
	for range 1 + w.chance.n(1) {
		w.send("many", "", coordinator.PriorityNormal)
	}
	w.token++
	w.apply(coordinator.CancelRequested{
		Task: coordinator.TaskID(fmt.Sprint("t", int(w.handle)-w.chance.n(1))), Reason: "not wanted", Token: w.token,
	})
}

// Market: auctions that are over within a few milliseconds of each other, for agents that bid for more than
// they have slots.

func (w *world) marketPolicy() *coordinator.Policy {
	p := w.basicPolicy(6)
	p.Strategies = w.drawStrategies()
	return p
}

func (w *world) marketActions() []action {
	return []action{
		{6, w.auctions}, {3, w.bidForAll}, {4, w.confirmAll}, {4, w.finishSome},
		{8, func() { w.step(0.001, 0.002, 0.004, 0.005, 0.006, 0.05) }}, {3, func() { w.step(0.3, 1) }}, {1, w.cancel},
		{1, w.comeAndGo}, {1, w.musterOnTime}, {1, w.batchAndCancel}, {1, w.changeAll}, {1, w.rejectSome}, {1, w.rarelyAsk},
	}
}

// auctions opens some, a few milliseconds apart.
func (w *world) auctions() {
	for range 2 + w.chance.n(4) {
		w.send("bid", "", coordinator.Priority(w.chance.n(3)), func(task *coordinator.Task) {
			task.Required = pick(&w.chance, nil, []string{"c1"}, []string{"c2"})
		})
		w.now = w.now.Add(time.Duration(pick(&w.chance, 0, 1, 2, 3, 5, 6)) * time.Millisecond)
	}
	w.bidForAll()
}

// bidForAll has agents answer most of what they are offered.
func (w *world) bidForAll() {
	c := &w.chance
	for len(w.offers) > 0 {
		o := w.offers[0]
		w.offers = w.offers[1:]
		if c.oneIn(6) {
			continue
		}
		w.apply(coordinator.BidReceived{
			Agent: o.Agent, Task: o.Task.ID, AuctionID: o.AuctionID, Fitness: pick(c, 0.2, 0.5, 0.5, 0.9), Active: c.n(2),
			Duration: c.seconds(1, 5), Relevance: pick(c, 0.5, 1),
		})
	}
}

// Crowd: so many agents that a choice looks at some of them only.

func (w *world) crowdPolicy() *coordinator.Policy {
	p := w.basicPolicy(1000)
	p.Strategy = pick(&w.chance, "load_balanced", "weighted")
	return p
}

func (w *world) crowdActions() []action {
	return []action{
		{8, w.sendSome}, {3, w.confirmAll}, {3, w.finishSome}, {4, w.shortly}, {1, w.comeAndGo}, {1, w.rejectSome},
	}
}

// Rests: lanes often refuse what is moved there.

func (w *world) restActions() []action {
	return []action{
		{5, w.flood}, {3, w.confirmAll}, {3, w.finishSome}, {2, w.moveAll}, {8, w.movesFail}, {3, w.comeOutSome},
		{3, w.lookAtAll}, {5, func() { w.step(0.1, 1, 4, 6) }}, {1, w.cancel}, {1, w.reweigh}, {1, w.muster},
	}
}

func (w *world) movesFail() {
	for range 1 + w.chance.n(6) {
		if len(w.moves) == 0 {
			return
		}
		m := take(&w.chance, &w.moves)
		w.apply(coordinator.LaneMoved{Handle: m.Handle, Outcome: coordinator.PublishRejected})
	}
}

// Hours: tasks that wait for a budget of an hour are looked at ten minutes before its end, and a little before
// or after that.

func (w *world) hoursPolicy() *coordinator.Policy {
	p := w.waitsPolicy()
	p.Settings.AssignmentTimeout, p.Settings.CountsWaiting, p.Settings.MaxTimeout = 30*time.Second, false, 0
	p.Quotas.Nodes[0].Seats, p.Quotas.Nodes[0].Rates[coordinator.DimRequests] = nil, nil
	p.Quotas.Nodes[0].Budgets[coordinator.DimRequests] = &coordinator.QuotaLimit{
		Nominal: 3, Period: coordinator.Period{Unit: coordinator.PerHour},
	}
	return p
}

func (w *world) hourActions() []action {
	return []action{
		{5, w.useUp}, {4, w.beforeTheEnd}, {1, w.confirmAll}, {1, w.finishSome},
		{1, func() { w.step(10, 600, 1800, 3600) }}, {1, w.comeAndGo}, {1, w.rarelyAsk},
	}
}

// useUp has more tasks come than there is budget for, and what runs end.
func (w *world) useUp() {
	w.musterOnTime()
	for range 5 {
		w.sendWaiting()
		w.confirmAll()
		w.succeed(3)
	}
}

// beforeTheEnd lets time go by until 50 minutes of the hour but for as long as a task may wait, has some come,
// and lets that go by, too.
func (w *world) beforeTheEnd() {
	ten := w.now.Truncate(time.Hour).Add(50 * time.Minute)
	begin := ten.Add(-w.chance.seconds(30, 30, 31, 29))
	if begin.Before(w.now) {
		begin = begin.Add(time.Hour)
	}
	w.stepTo(begin)
	w.useUp()
	w.stepTo(begin.Add(30 * time.Second))
	w.stepTo(begin.Add(time.Minute))
}

// Silent: agents claim and are silent then: their parts are kept for half a minute for them, and go to those
// that wait.

func (w *world) silentPolicy() *coordinator.Policy {
	p := w.basicPolicy(6)
	for i := range p.Agents {
		p.Agents[i].MaxConcurrent, p.Agents[i].Pull, p.Agents[i].Capabilities = 8, coordinator.PullShared, abilities[:2]
	}
	return p
}

func (w *world) silentActions() []action {
	return []action{
		{4, w.silence}, {1, w.confirmAll}, {2, func() { w.succeed(8) }}, {1, w.sendSome}, {1, w.musterOnTime},
	}
}

// silence has some agents claim that do much, and one wait that does little, and lets a minute go by.
func (w *world) silence() {
	c := &w.chance
	w.confirmAll()
	w.succeed(100)
	waits := c.n(len(w.policy.Agents) - 1)
	for i := range w.policy.Agents {
		if i != waits {
			w.now = w.now.Add(time.Duration(c.n(900)) * time.Millisecond)
			w.token++
			w.apply(coordinator.ClaimReceived{
				Agent: w.policy.Agents[i].ID, ClaimID: fmt.Sprint("c", w.token), MaxItems: 1, Capacity: pick(c, 1.0, 4, 16),
				Token: w.token,
			})
		}
	}
	for range 2 + c.n(8) {
		w.send("any", "", coordinator.PriorityNormal)
	}
	w.token++
	w.apply(coordinator.ClaimReceived{
		Agent: w.policy.Agents[waits].ID, ClaimID: fmt.Sprint("c", w.token), MaxItems: 1 + c.n(3), Pending: c.n(4),
		Capacity: pick(c, 0.1, 0.5), Wait: time.Minute, Token: w.token,
	})
	w.step(33, 70)
}

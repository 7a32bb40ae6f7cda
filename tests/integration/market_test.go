package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"taskbus/agent"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/view"
	"taskbus/messages"
	"taskbus/tests/support/brokertest"
)

// bazaar is three equal agents that bid for everything, and are taken at their word:
// the test says which wins. Its window is so long that an auction that waits for
// its end is seen to.
const bazaar = `
agents:
  a1: {capabilities: [code, go, sql, gpu], max_concurrent_tasks: 2, health_check_interval: 1}
  a2: {capabilities: [code, go, sql, gpu], max_concurrent_tasks: 2, health_check_interval: 1}
  a3: {capabilities: [code, go, sql, gpu], max_concurrent_tasks: 2, health_check_interval: 1}
assignment_strategies:
  load_balanced: {enabled: true}
  market: {default: true, bid_window_ms: 8000, min_bid_window_ms: 8000, invite: all, fitness: reported}
task_routing:
  build: {required_capabilities: [code, go, sql, gpu]}
global_settings:
  assignment_timeout_seconds: 60
  stale_agent_threshold_seconds: 60
`

// bazaarWindow is how long bids are taken in bazaar; atOnceThere is what is far below
// that, and long on a busy machine.
const (
	bazaarWindow = 8 * time.Second
	atOnceThere  = 4 * time.Second
)

// windowed is bazaar with another window.
func windowed(t *testing.T, window time.Duration) string {
	ms := window.Milliseconds()
	return replaced(t, bazaar, "bid_window_ms: 8000, min_bid_window_ms: 8000",
		fmt.Sprintf("bid_window_ms: %d, min_bid_window_ms: %d", ms, ms))
}

// onlyFirst is bazaar with its first n agents: 1 or 2.
func onlyFirst(t *testing.T, n int) string {
	config := bazaar
	for _, id := range []string{"a2", "a3"}[n-1:] {
		config = replaced(t, config, "  "+id+
			": {capabilities: [code, go, sql, gpu], max_concurrent_tasks: 2, health_check_interval: 1}\n", "")
	}
	return config
}

// bidder is a member that bids as ADR-004 has it: of the four capabilities that a build
// requires it has these.
func (r *rig) bidder(b *books, id string, slots int, work agent.Handler, capabilities ...string) *member {
	r.t.Helper()
	return r.member(b, agent.Config{
		ID: id, Slots: slots, Capabilities: capabilities, Bidder: agent.DefaultBidder(0, 100*time.Millisecond),
	}, work)
}

// auctions is how many auctions have ended so.
func (c *process) auctions(outcome coordinator.AuctionOutcome) float64 {
	c.t.Helper()
	return c.metric(fmt.Sprintf("taskbus_auctions_total{outcome=%q}", outcome))
}

// Three agents bid: the best bid gets the task, the others hear that theirs have lost,
// and what follows is a dispatch as any other.
func TestMarketBestBidWins(t *testing.T) {
	t.Parallel()
	r := newRig(t, bazaar)
	b := r.open()
	c := r.start()
	o := r.overhear("a1", "a2", "a3")
	all := []*member{
		r.bidder(b, "a1", 2, lasting(0), "code"),              // fitness 1/4
		r.bidder(b, "a2", 2, lasting(0), "code", "go", "sql"), // 3/4
		r.bidder(b, "a3", 2, lasting(0), "code", "go"),        // 2/4
	}
	c.awaitEligible("a1", "a2", "a3")
	offered := time.Now()
	b.offer(r.client, task("t-1", "build"))
	e := b.end(t, "t-1")
	if e.What != "succeeded" || e.Agent != "a2" || e.Attempt != 1 || attemptID(e.Dispatch) != "t-1.1" {
		t.Errorf("%+v", e)
	}
	if took := time.Since(offered); took > atOnceThere {
		t.Errorf("it took %v although everybody had bid; the window is %v", took, bazaarWindow)
	}
	awards := awaitTold[*messages.TaskAwarded](t, o, 1)
	if a := awards[0]; len(awards) != 1 || a.AgentID != "a2" || a.TaskID != "t-1" || attemptID(a.DispatchID) != "t-1.1" ||
		a.AuctionID == "" || a.CorrelationID != "trace-t-1" {
		t.Errorf("awarded: %+v", awards)
	}
	lost := map[coordinator.AgentID]messages.BidReason{}
	for _, m := range awaitTold[*messages.BidRejected](t, o, 2) {
		lost[m.AgentID] = m.Reason
		if m.TaskID != "t-1" || m.AuctionID != awards[0].AuctionID || m.CorrelationID != "trace-t-1" {
			t.Errorf("rejected: %+v", m)
		}
	}
	if len(lost) != 2 || lost["a1"] != messages.BidLost || lost["a3"] != messages.BidLost {
		t.Errorf("rejected: %v", lost)
	}
	offers := map[coordinator.AgentID]int{}
	for _, m := range of[*messages.TaskAvailable](o) {
		offers[m.AgentID] += len(m.Offers)
		for _, one := range m.Offers {
			if one.TaskID != "t-1" || len(one.RequiredCapabilities) != 4 || one.Attempt != 1 || one.BidWindowMS < 1 ||
				one.BidWindowMS > int(bazaarWindow.Milliseconds()) {
				t.Errorf("offered to %s: %+v", m.AgentID, one)
			}
		}
	}
	if len(offers) != 3 || offers["a1"]+offers["a2"]+offers["a3"] != 3 {
		t.Errorf("offers: %v", offers)
	}
	if v := c.task("t-1"); v.Strategy != "market" || v.Agent != "a2" {
		t.Errorf("/tasks/t-1: %+v", v)
	}
	if n := c.auctions(coordinator.AuctionAwarded); n != 1 {
		t.Errorf("%v auctions awarded, want 1", n)
	}
	for _, m := range all {
		m.retire()
	}
	r.close(c, b, nil)
	if n := b.heard("task.completed."); n != 1 {
		t.Errorf("%d times task.completed", n)
	}
}

// Agents that hear of the task and do not bid are waited for as long as the window is,
// and no longer: then the coordinator chooses by itself.
func TestMarketNobodyBids(t *testing.T) {
	t.Parallel()
	const window = time.Second
	r := newRig(t, windowed(t, window))
	b := r.open()
	c := r.start()
	var all []*member
	for _, id := range []string{"a1", "a2", "a3"} {
		all = append(all, r.member(b, agent.Config{ID: id, Slots: 2}, lasting(0)))
	}
	c.awaitEligible("a1", "a2", "a3")
	offered := time.Now()
	b.offer(r.client, task("t-1", "build"))
	e := b.end(t, "t-1")
	if took := time.Since(offered); took < window || took > window+atOnceThere {
		t.Errorf("it took %v, want the window of %v and little more", took, window)
	}
	if e.What != "succeeded" || e.Attempt != 1 {
		t.Errorf("%+v", e)
	}
	line := c.log.await(t, "No bids received for task t-1, using load-balanced fallback")
	if line["level"] != "warn" || line["task_id"] != "t-1" || line["trace_id"] != "trace-t-1" || line["invited"] != 3.0 ||
		line["bids"] != 0.0 {
		t.Errorf("the log line: %v", line)
	}
	if n := c.auctions(coordinator.AuctionNoBids); n != 1 {
		t.Errorf("%v auctions without bids, want 1", n)
	}
	for _, m := range all {
		m.retire()
	}
	r.close(c, b, nil)
}

// An agent without a control queue is not waited for: neither where there is no agent
// else, nor beside a bidder.
func TestMarketDoesNotWaitForTheDeaf(t *testing.T) {
	t.Parallel()
	r := newRig(t, onlyFirst(t, 2))
	b := r.open()
	c := r.start()
	r.online(c, "a1")
	h := r.hand("a1", 2)
	h.beats(func() heartbeat { return beat("a1", 0, 2) })
	offered := time.Now()
	b.offer(r.client, task("t-1", "build"))
	d := h.take()
	if took := time.Since(offered); took > atOnceThere {
		t.Errorf("it took %v; the window is %v", took, bazaarWindow)
	}
	b.enter(d)
	h.complete(d)
	b.end(t, "t-1")
	if n := c.auctions(coordinator.AuctionNoBids); n != 0 {
		t.Errorf("%v auctions waited for bids in vain", n)
	}
	if n := c.auctions(coordinator.AuctionUnheard); n != 1 {
		t.Errorf("%v auctions that nobody heard of, want 1", n)
	}

	t.Log("beside one that bids, and could be outbid")
	a2 := r.bidder(b, "a2", 2, lasting(0), "code")
	c.awaitEligible("a2")
	offered = time.Now()
	b.offer(r.client, task("t-2", "build"))
	if e := b.end(t, "t-2"); e.Agent != "a2" || e.Attempt != 1 {
		t.Errorf("%+v", e)
	}
	if took := time.Since(offered); took > atOnceThere {
		t.Errorf("it took %v; the window is %v", took, bazaarWindow)
	}
	a2.retire()
	r.close(c, b, nil)
}

// stalls is a fleet of n agents with so many slots each, by market.
func stalls(n, slots int, market string) (config string, ids []string) {
	var s strings.Builder
	s.WriteString("agents:\n")
	for i := range n {
		ids = append(ids, fmt.Sprintf("a%d", i+1))
		fmt.Fprintf(&s, "  %s: {capabilities: [code], max_concurrent_tasks: %d, health_check_interval: 1}\n", ids[i], slots)
	}
	fmt.Fprintf(&s, `assignment_strategies:
  load_balanced: {enabled: true}
  market: {default: true, %s}
task_routing:
  build: {required_capabilities: [code]}
global_settings:
  assignment_timeout_seconds: 60
  stale_agent_threshold_seconds: 60
`, market)
	return s.String(), ids
}

// numbered are n tasks.
func numbered(n int) []request {
	all := make([]request, n)
	for i := range all {
		all[i] = task(fmt.Sprint("t-", i), "build")
	}
	return all
}

// SIGKILL of the leader while auctions are open: the next one offers the tasks anew.
// None is lost, and none is dispatched twice: none had been.
func TestMarketLeaderKilled(t *testing.T) {
	t.Parallel()
	const tasks, agents, slots = 60, 4, 30
	config, ids := stalls(agents, slots, "bid_window_ms: 3000, min_bid_window_ms: 3000, invite: all")
	r := newRig(t, config)
	b := r.open()
	first := r.start()
	second := r.launch(r.broker.URL)
	second.awaitState("standby")
	var all []*member
	for i, id := range ids {
		cfg := agent.Config{ID: id, Slots: slots, Capabilities: []string{"code"}}
		if i > 0 { // the first has no Bidder: its bid is waited for
			cfg.Bidder = agent.DefaultBidder(0, time.Second)
		}
		all = append(all, r.member(b, cfg, lasting(20*time.Millisecond)))
	}
	first.awaitEligible(ids...)
	if n := b.offer(r.client, numbered(tasks)...); n != tasks {
		t.Fatalf("%d of %d tasks were confirmed", n, tasks)
	}
	first.awaitStatus("every auction is open", func(s view.Status) bool { return s.Pending.Bidding == tasks })
	first.kill()
	died := time.Now()
	if done, _ := b.accounted(); done != 0 {
		t.Fatalf("%d tasks had been begun before the kill: this machine is too slow for the window", done)
	}
	second.awaitReady()
	b.allEnd(t, 60*time.Second)
	t.Logf("all done %v after SIGKILL; auctions of the next leader: awarded %v, without bids %v", time.Since(died),
		second.auctions(coordinator.AuctionAwarded), second.auctions(coordinator.AuctionNoBids))
	for _, m := range all {
		m.retire()
		if _, most := m.count(); most > slots {
			t.Errorf("%s had %d tasks at once in %d slots", m.id, most, slots)
		}
	}
	r.close(second, b, nil)
	for id := range b.acknowledged {
		if by := b.begunBy(id); len(by) != 1 {
			t.Errorf("%s was begun by %v, want once", id, by)
		}
	}
}

// Two hundred tasks at once, ten bidders. Each of them would do more at once than
// agents.yaml allows: that it never does is the coordinator's doing.
func TestMarketManyAuctions(t *testing.T) {
	t.Parallel()
	const tasks, agents = 200, 10
	for _, tt := range []struct {
		name   string
		slots  int // of each agent
		within time.Duration
	}{
		{"slots for all of them", 25, 5 * time.Second},
		{"slots for a quarter", 5, 5 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			config, ids := stalls(agents, tt.slots, "bid_window_ms: 3000, min_bid_window_ms: 3000, invite: all")
			r := newRig(t, config)
			b := r.open()
			c := r.start()
			var all []*member
			for _, id := range ids {
				all = append(all, r.bidder(b, id, 4*tt.slots, lasting(50*time.Millisecond), "code"))
			}
			c.awaitEligible(ids...)
			begun := time.Now()
			b.offer(r.client, numbered(tasks)...)
			b.allEnd(t, 40*time.Second)
			took := time.Since(begun)
			parts := map[string]int{}
			for _, m := range all {
				m.retire()
				n, most := m.count()
				if parts[m.id] = n; most > tt.slots {
					t.Errorf("%s had %d tasks at once in %d slots", m.id, most, tt.slots)
				}
			}
			awarded := c.auctions(coordinator.AuctionAwarded)
			// Some auctions end without a bidder that still has a slot, and the task goes to one
			// of them later; how many these are depends on how the tasks and the bids come. But
			// bids there are.
			if noBids := c.auctions(coordinator.AuctionNoBids); awarded == 0 || noBids > tasks/20 {
				t.Errorf("of %d tasks %v went to a bidder at once, and for %v nobody bid", tasks, awarded, noBids)
			}
			// Four rounds of 50 ms each at most, and their auctions, which bids close. Were no auction closed before
			// its window of 3 s is over, it would be 4 · 3 s.
			if took > tt.within {
				t.Errorf("%d tasks took %v, want at most %v: slots are free while tasks wait", tasks, took, tt.within)
			}
			t.Logf("%d tasks in %v, %v of them by the bids of one auction: %v", tasks, took, awarded, parts)
			r.close(c, b, nil)
			for id := range b.acknowledged {
				if by := b.begunBy(id); len(by) != 1 {
					t.Errorf("%s was begun by %v", id, by)
				}
			}
		})
	}
}

// agents.auth: strict holds for bids: one that another user sends is refused and
// changes nothing.
func TestMarketForgedBid(t *testing.T) {
	t.Parallel()
	vhost := brokertest.Vhost(t) // user names belong to the whole broker
	id := "a-" + vhost.VHost[len(vhost.VHost)-8:]
	r := rigOn(t, vhost, replaced(t, onlyFirst(t, 1), "  a1:", "  auth: strict\n  "+id+":"))
	mine := r.broker.AddUser(t, id)
	r.broker.SetPermissions(t, id, ".*", ".*", ".*")
	b := r.open()
	c := r.start()
	own := &rig{t: t, broker: mine, config: r.config, client: connect(t, mine)}
	m := beat(id, 0, 2).message()
	m.UserId = id
	own.publish(bus.StreamStatus, m)
	c.awaitEligible(id)
	h := own.hand(id, 2)
	control := h.control()
	b.offer(r.client, task("t-1", "build"))
	offer := h.offer(control)
	r.asked(id, "task.bid", "", bidFor(id, offer, 0.9)) // by the broker's own user, unsigned
	c.awaitStatus("the forged bid is refused", func(view.Status) bool {
		return c.metric(`taskbus_bids_refused_total{reason="wrong_sender"}`) == 1
	})
	if n := c.status().Pending.Bidding; n != 1 {
		t.Errorf("%d auctions are open after a forged bid, want 1", n)
	}
	h.asked(id, "task.bid", id, bidFor(id, offer, 0.9))
	d := h.take()
	b.enter(d)
	said := h.result("t-1", d.DispatchID, "succeeded").message()
	said.UserId = id
	own.publish(bus.StreamResult, said)
	h.ack(d)
	if e := b.end(t, "t-1"); e.Agent != id || e.Attempt != 1 {
		t.Errorf("%+v", e)
	}
	if n := c.auctions(coordinator.AuctionAwarded); n != 1 {
		t.Errorf("%v auctions awarded, want 1", n)
	}
	r.close(c, b, nil)
}

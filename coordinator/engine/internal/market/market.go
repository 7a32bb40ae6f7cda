package market

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/auction"
)

const (
	// MaxOffers is how many offers an agent is asked to answer at once: what one task.available holds.
	MaxOffers = 256
	// leastQuorum is how many bids are enough, at least, when half of those asked have answered and
	// the slowest twentieth is all there is to wait for.
	leastQuorum = 4
	// bidTakes is what one bid costs broker and coordinator when they have nothing else to do: 60 to
	// 100 µs, measured with 10,000 on two cores.
	bidTakes = 100 * time.Microsecond
	// maxSilent is of how many agents a late answer is still learnt from.
	maxSilent = 32
	// togetherWithin is how close the ends of contending lots are that are decided together.
	togetherWithin = 5 * time.Millisecond
	// maxPotential is how many agents may be asked for a lot so that it is still looked at which of
	// them could outdo the best bid: each look costs a pass over them.
	maxPotential = 512
)

// Market is all lots that are open. The zero value opens none before Install.
type Market[T, A any] struct {
	window         *auction.Window
	floor, ceiling time.Duration
	open           []*Lot[T, A] // in the order in which they were opened
	opened         uint64       // how many ever
	offers         int          // that are not answered
	contending     int          // bids that hold no slot
}

// Bidder is an agent's part in the open lots. Agent and ID must be set before it is asked.
type Bidder[A any] struct {
	Agent A
	ID    coordinator.AgentID
	// Unreachable: it has no control queue, as far as is known, and is not asked.
	Unreachable bool
	// Calibration is what outcomes have taught of its bids.
	Calibration auction.Calibration

	offers     int // that it has not answered
	held       int // slots that its bids hold
	contending int // bids that hold none
}

// Held returns how many slots the agent's bids hold.
func (b *Bidder[A]) Held() int { return b.held }

// MayAsk reports whether the agent can be offered another task.
func (b *Bidder[A]) MayAsk() bool { return !b.Unreachable && b.offers < MaxOffers }

// Takes reports whether the agent takes part in any lot.
func (b *Bidder[A]) Takes() bool { return b.offers+b.held+b.contending > 0 }

// Record returns what outcomes have taught of the agent's bids, for the journal.
func (b *Bidder[A]) Record() *coordinator.Calibrated {
	s := b.Calibration.State()
	return &coordinator.Calibrated{
		Agent: b.ID, Ratio: s.Ratio, Brier: s.Brier, Bias: s.Bias, Timed: s.Timed, Judged: s.Judged,
	}
}

// Snapshot returns the same for people.
func (b *Bidder[A]) Snapshot() coordinator.CalibrationSnapshot {
	c := &b.Calibration
	return coordinator.CalibrationSnapshot{
		Outcomes: c.Outcomes(), Brier: c.Brier(), Bias: c.Bias(), Delta: c.Delta(), Ratio: c.Ratio(),
	}
}

// Invite returns for how long bids are taken for a task that may wait that long: at most for half of it, so that the
// other half is left for the work and for a second try; and which of those that can be asked are: all, or the better
// ones by score more often. why is AuctionNone, or why there is no auction.
func (m *Market[T, A]) Invite(
	wait time.Duration, can []*Bidder[A], all bool, task coordinator.TaskID, seed uint64, score func(i int) float64,
) (window time.Duration, asked []*Bidder[A], why coordinator.AuctionOutcome) {
	switch window = min(m.Length(), wait/2); {
	case window == 0, window < m.floor:
		return 0, nil, coordinator.AuctionNoTime
	case len(can) == 0:
		return 0, nil, coordinator.AuctionUnheard
	case all:
		return window, can, coordinator.AuctionNone
	}
	picks := auction.Invite(nil, len(can), task, seed, score)
	asked = make([]*Bidder[A], len(picks))
	for i, n := range picks {
		asked[i] = can[n]
	}
	return window, asked, coordinator.AuctionNone
}

// Class counts the open lots of one class of tasks: of those that the same agents could have.
type Class struct {
	Of            any // the kernel's record
	open, seeking int
}

// Open returns how many lots of the class are open.
func (c *Class) Open() int { return c.open }

// Seeking returns how many of them have no bid that holds a slot.
func (c *Class) Seeking() int { return c.seeking }

// Lot is one task that is offered, or was.
type Lot[T, A any] struct {
	Task T
	ID   string
	// Won is the bid that the dispatch at hand goes by; its Agent is empty without one. The kernel sets it.
	Won auction.Bid

	of *coordinator.Task
	// next are the bids that did not win, best first: for when the winner does not take the task, or
	// none of them had a slot.
	next    []auction.Ranked
	opened  time.Time
	arrival uint64
	silent  []coordinator.AgentID // some of those that had not answered at the end

	// While it is open; book is nil afterwards.
	book      *auction.Book
	class     *Class
	window    time.Duration
	mode      auction.Mode
	asked     []*Bidder[A] // without those withdrawn
	bids      []bid[A]
	potential map[coordinator.AgentID]auction.Appraisal // the best that each of those asked could bid
	patience  auction.Patience
	// Of the bid that is being entered, for appraise.
	merit   auction.Merit
	bidding *Bidder[A]
}

// bid is one that counts, of an agent. held: it holds a slot.
type bid[A any] struct {
	bidder *Bidder[A]
	held   bool
}

// Open reports whether bids are still taken for the lot.
func (l *Lot[T, A]) Open() bool { return l.book != nil }

// Closes returns when the window of an open lot is over.
func (l *Lot[T, A]) Closes() time.Time { return l.book.Closes() }

// Asked returns to which agents an open lot is offered, without those withdrawn. It must not be changed.
func (l *Lot[T, A]) Asked() []*Bidder[A] { return l.asked }

// Ranked returns the bids for an open lot that count, best first.
func (l *Lot[T, A]) Ranked() []auction.Ranked { return l.book.Ranked(nil) }

// Observe learns from how the task ended whether the bid of its agent was true. It reports whether the agent has
// the task for a bid.
func (l *Lot[T, A]) Observe(b *Bidder[A], took time.Duration, succeeded bool) bool {
	if l == nil || l.Won.Agent != b.ID {
		return false
	}
	b.Calibration.Observe(l.Won.Fitness, l.Won.Duration, took, succeeded)
	return true
}

// holds reports whether any bid for the lot holds a slot.
func (l *Lot[T, A]) holds() bool {
	return slices.ContainsFunc(l.bids, func(b bid[A]) bool { return b.held })
}

// Install takes over how long the auctions of a policy may take. What reply times have taught is forgotten when that
// differs.
func (m *Market[T, A]) Install(strategies []coordinator.Strategy) {
	for i := range strategies {
		if s := strategies[i].Market; s != nil && (m.window == nil || s.Floor != m.floor || s.Ceiling != m.ceiling) {
			m.floor, m.ceiling, m.window = s.Floor, s.Ceiling, auction.NewWindow(s.Floor, s.Ceiling)
		}
	}
}

// Length returns how long the next auction takes bids: what the fleet has needed of late, and the time
// for the bids that are to come before its own. It is 0 before Install.
func (m *Market[T, A]) Length() time.Duration {
	if m.window == nil {
		return 0
	}
	return min(m.ceiling, m.window.Length()+time.Duration(m.offers)*bidTakes)
}

// Lots returns the open lots in the order in which they were opened. The slice changes with the next
// lot that is opened or closed.
func (m *Market[T, A]) Lots() []*Lot[T, A] { return m.open }

// Contended reports whether any bid holds no slot.
func (m *Market[T, A]) Contended() bool { return m.contending > 0 }

// Terms are what a task is offered on.
type Terms[T, A any] struct {
	Task    T
	Of      *coordinator.Task
	Arrival uint64 // of the task: lots that are decided together are in its order
	Class   *Class
	Seed    uint64
	// Reported takes the fitness that an agent claims as it stands.
	Reported bool
	Window   time.Duration
	Asked    []*Bidder[A] // is kept
}

// Offer opens a lot. It returns when to look at it if no bid comes.
func (m *Market[T, A]) Offer(now time.Time, t Terms[T, A], v View[T, A]) (l *Lot[T, A], look time.Time) {
	m.opened++
	l = &Lot[T, A]{
		Task: t.Task, ID: lotID(now, m.opened), of: t.Of, opened: now, arrival: t.Arrival,
		class: t.Class, window: t.Window, mode: auction.Appraised, asked: t.Asked,
		patience: auction.Patience{Quorum: max(leastQuorum, len(t.Asked)/2), P95: m.window.P95()},
	}
	if t.Reported {
		l.mode = auction.Reported
	}
	ids := make([]coordinator.AgentID, len(t.Asked))
	for i, b := range t.Asked {
		ids[i] = b.ID
		b.offers++
	}
	m.offers += len(t.Asked)
	l.book = auction.Open(t.Of.ID, t.Seed, ids, now, t.Window, l.appraise)
	if len(t.Asked) <= maxPotential {
		l.potential = make(map[coordinator.AgentID]auction.Appraisal, len(t.Asked))
		for _, b := range t.Asked {
			l.potential[b.ID] = l.best(v.Merit(t.Task, b.Agent), b)
		}
	}
	l.class.open++
	l.class.seeking++
	m.open = append(m.open, l)
	return l, l.book.NextLook(l.hopes())
}

// lotID returns a lasting id of a lot, also among those of other leaders and of the same task: what was bid for
// another must not count.
func lotID(now time.Time, n uint64) string {
	return "auction-" + strconv.FormatInt(now.UnixMilli(), 36) + "-" + strconv.FormatUint(n, 36)
}

// appraise returns what the bid that is being entered is worth.
func (l *Lot[T, A]) appraise(b auction.Bid) auction.Appraisal {
	return auction.Appraise(l.mode, l.merit, &l.bidding.Calibration, b)
}

// best returns the best that the agent could bid.
func (l *Lot[T, A]) best(m auction.Merit, b *Bidder[A]) auction.Appraisal {
	if l.mode == auction.Reported {
		return auction.Appraisal{Fitness: 1, Duration: m.Duration}
	}
	return auction.Potential(m, &b.Calibration)
}

// hopes returns how long to wait for the best bid that may still come.
func (l *Lot[T, A]) hopes() auction.Patience {
	p := l.patience
	if l.potential == nil {
		p.Possible.Fitness = 1
		return p
	}
	p.Possible = auction.Appraisal{Active: math.MaxInt, Duration: math.MaxInt64}
	l.book.Silent(func(id coordinator.AgentID) {
		b := l.potential[id]
		p.Possible.Fitness = max(p.Possible.Fitness, b.Fitness)
		p.Possible.Active = min(p.Possible.Active, b.Active)
		p.Possible.Duration = min(p.Possible.Duration, b.Duration)
	})
	return p
}

// Bid enters a bid of an agent for a lot, of which nil stand for one that there is not. answer says why it does not
// count, unless its reason is BidCounts; held reports that the bid holds a slot of the agent from now on.
func (m *Market[T, A]) Bid(
	now time.Time, l *Lot[T, A], by *Bidder[A], ev *coordinator.BidReceived, v View[T, A],
) (answer coordinator.RejectBid, held bool) {
	answer = coordinator.RejectBid{
		Agent: ev.Agent, Task: ev.Task, AuctionID: ev.AuctionID, TraceID: ev.TraceID, Reason: coordinator.BidLate,
	}
	switch {
	case by == nil:
		answer.Reason = coordinator.BidNotInvited
		return answer, false
	case l == nil:
		return answer, false
	}
	if answer.AuctionID = l.ID; l.Open() { // the bid may have named the task alone
		answer.Reason, held = m.enter(now, l, by, ev, v)
	} else if i := slices.Index(l.silent, ev.Agent); i >= 0 {
		// Were this not learnt, a window that has become too short for the fleet would never be longer again.
		l.silent = slices.Delete(l.silent, i, i+1)
		m.window.Observe(now.Sub(l.opened))
	}
	return answer, held
}

// enter takes in a bid for an open lot.
func (m *Market[T, A]) enter(
	now time.Time, l *Lot[T, A], by *Bidder[A], ev *coordinator.BidReceived, v View[T, A],
) (refusal coordinator.BidRefusal, held bool) {
	waiting := l.book.Waiting()
	l.bidding, l.merit = by, v.Merit(l.Task, by.Agent)
	refusal = l.book.Bid(now, auction.Bid{
		Agent: ev.Agent, Fitness: ev.Fitness, Active: ev.Active, Duration: ev.Duration, Relevance: ev.Relevance,
	})
	l.bidding = nil
	if l.book.Waiting() < waiting { // its first answer
		m.answered(by)
		m.window.Observe(now.Sub(l.opened))
	}
	if refusal != coordinator.BidCounts || slices.ContainsFunc(l.bids, func(b bid[A]) bool { return b.bidder == by }) {
		return refusal, false // or it replaces one of the same agent
	}
	if held = v.Slots(by.Agent) > 0; !held {
		by.contending++
		m.contending++
	} else if by.held++; !l.holds() {
		l.class.seeking--
	}
	l.bids = append(l.bids, bid[A]{bidder: by, held: held})
	return refusal, held
}

// answered notes that an offer is not waited for any more.
func (m *Market[T, A]) answered(b *Bidder[A]) {
	b.offers--
	m.offers--
}

// Withdraw takes an agent out of a lot: it is not waited for, and its bid does not count. in reports
// whether the lot is open and it was asked for it, freed whether its bid held a slot.
func (m *Market[T, A]) Withdraw(l *Lot[T, A], b *Bidder[A]) (in, freed bool) {
	i := slices.Index(l.asked, b)
	if i < 0 {
		return false, false
	}
	l.asked = slices.Delete(l.asked, i, i+1)
	waiting := l.book.Waiting()
	l.book.Withdraw(b.ID)
	if l.book.Waiting() < waiting {
		m.answered(b)
	}
	if i := slices.IndexFunc(l.bids, func(x bid[A]) bool { return x.bidder == b }); i >= 0 {
		held := l.holds()
		freed = m.release(l.bids[i])
		l.bids = slices.Delete(l.bids, i, i+1)
		if held && !l.holds() {
			l.class.seeking++
		}
	}
	return true, freed
}

// release ends what a bid takes, and reports whether that was a slot.
func (m *Market[T, A]) release(b bid[A]) (freed bool) {
	if b.held {
		b.bidder.held--
		return true
	}
	b.bidder.contending--
	m.contending--
	return false
}

// Move puts an open lot into a class of another fleet, nil: it has none there, and takes out of it the agents that have
// left.
func (m *Market[T, A]) Move(l *Lot[T, A], to *Class, v View[T, A]) {
	if to != nil {
		l.class.leave(l.holds())
		l.class = to
		to.open++
		if !l.holds() {
			to.seeking++
		}
	}
	for _, b := range slices.Clone(l.asked) {
		if v.Agent(b.ID) == nil {
			m.Withdraw(l, b)
		}
	}
}

func (c *Class) leave(holds bool) {
	c.open--
	if !holds {
		c.seeking--
	}
}

// Look returns why an open lot need not wait any longer, or NotYet and when to look again if nothing
// happens. The best bid may hold no slot while others of its agent do, for lots that wait: unless the
// agent has a slot free, which lot it gets is not known before they are over.
func (m *Market[T, A]) Look(now time.Time, l *Lot[T, A], v View[T, A]) (why auction.Closing, next time.Time) {
	hopes := l.hopes()
	switch why = l.book.Closing(now, hopes); why {
	case auction.NotYet:
		return why, l.book.NextLook(hopes)
	case auction.WindowOver:
		return why, next
	}
	best, _ := l.book.Best()
	i := slices.IndexFunc(l.bids, func(b bid[A]) bool { return b.bidder.ID == best.Agent })
	if i < 0 || l.bids[i].held || v.Slots(l.bids[i].bidder.Agent) > 0 {
		return why, next
	}
	holds := bid[A]{bidder: l.bids[i].bidder, held: true}
	for _, o := range m.open {
		if slices.Contains(o.bids, holds) && o.book.Closing(now, o.hopes()) == auction.NotYet {
			return auction.NotYet, l.book.Closes()
		}
	}
	return why, next
}

// Conclude closes an open lot for that reason, and those that are decided with it, in the order in which their tasks
// arrived.
func (m *Market[T, A]) Conclude(now time.Time, l *Lot[T, A], why auction.Closing, v View[T, A]) []Closed[T, A] {
	lots := m.together(now, l)
	over := make([]Closed[T, A], 0, len(lots))
	for _, one := range lots {
		late, cause := v.Late(one.Task), auction.NotYet // as it stands
		switch {
		case late:
			cause = auction.WindowOver
		case one == l:
			cause = why
		}
		over = append(over, m.Close(now, one, cause))
		over[len(over)-1].Late = late
	}
	return over
}

// together returns an open lot with those that are decided with it: where one of its bids holds no slot, those that
// are as good as over.
func (m *Market[T, A]) together(now time.Time, l *Lot[T, A]) []*Lot[T, A] {
	lots := []*Lot[T, A]{l}
	if !slices.ContainsFunc(l.bids, func(b bid[A]) bool { return b.bidder.contending > 0 }) {
		return lots
	}
	for _, o := range m.open {
		over := o.book.Closes().Sub(now) <= togetherWithin || o.book.Closing(now, o.hopes()) != auction.NotYet
		if o != l && over && len(o.bids) > 0 && len(lots) < auction.MaxSide {
			lots = append(lots, o)
		}
	}
	slices.SortStableFunc(lots, func(a, b *Lot[T, A]) int { return cmp.Compare(a.arrival, b.arrival) })
	return lots
}

// Closed is what a lot leaves when its auction is over.
type Closed[T, A any] struct {
	Lot    *Lot[T, A]
	Why    auction.Closing
	Ranked []auction.Ranked // the bids that count, best first
	Asked  []*Bidder[A]     // without those withdrawn
	Freed  []*Bidder[A]     // those of which a slot is held no more
	Window time.Duration    // how long bids were to be taken
	Took   time.Duration    // how long they were
	Class  *Class           // that it was in
	// Late: the deadline of its task has passed. Abandoned, which the kernel sets: its task is withdrawn, or judged anew.
	// It goes to no bidder then.
	Late, Abandoned bool
	// Fallback is agents.yaml's word for what decides without bids, to be announced; the kernel sets it.
	Fallback string

	matched *auction.Ranked // the bid that it goes to by Match; nil: by none
}

// Close ends the auction of an open lot. why is NotYet where the caller does not know the cause: it is then
// what Look would say, WindowOver if that is NotYet as well.
func (m *Market[T, A]) Close(now time.Time, l *Lot[T, A], why auction.Closing) Closed[T, A] {
	if why == auction.NotYet {
		if why = l.book.Closing(now, l.hopes()); why == auction.NotYet {
			why = auction.WindowOver
		}
	}
	c := Closed[T, A]{
		Lot: l, Why: why, Ranked: l.book.Ranked(nil), Asked: l.asked, Window: l.window, Took: now.Sub(l.opened),
		Class: l.class,
	}
	m.open = slices.DeleteFunc(m.open, func(o *Lot[T, A]) bool { return o == l })
	l.class.leave(l.holds())
	for _, b := range l.bids {
		if m.release(b) {
			c.Freed = append(c.Freed, b.bidder)
		}
	}
	m.silence(l)
	l.book, l.class, l.asked, l.bids, l.potential = nil, nil, nil, nil, nil
	return c
}

// silence ends the wait for those that have not answered.
func (m *Market[T, A]) silence(l *Lot[T, A]) {
	if l.book.Waiting() == 0 {
		return
	}
	silent := make([]coordinator.AgentID, 0, l.book.Waiting())
	l.book.Silent(func(id coordinator.AgentID) { silent = append(silent, id) }) // sorted
	for _, b := range l.asked {
		if _, is := slices.BinarySearch(silent, b.ID); is {
			m.answered(b)
		}
	}
	l.silent = slices.Clone(silent[:min(len(silent), maxSilent)])
}

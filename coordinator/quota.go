package coordinator

import (
	"strconv"
	"time"
)

// Dimension is what a quota is counted in.
type Dimension uint8

// The dimensions. The numbers are part of the journal and never change.
const (
	DimRequests     Dimension = 0 // calls of an LLM
	DimInputTokens  Dimension = 1
	DimOutputTokens Dimension = 2
	DimTotalTokens  Dimension = 3 // input and output together
	DimCost         Dimension = 4 // millionths of a US dollar
	DimConcurrency  Dimension = 5 // what runs at this moment
	NumDimensions             = 6
)

var dimensions = [NumDimensions]string{"requests", "input_tokens", "output_tokens", "total_tokens", "cost_usd",
	"concurrency"}

// String is the word used in quotas.yaml, metrics and answers.
func (d Dimension) String() string { return dimensions[d] }

// Shown is an amount in the unit that people read: US dollars of costs, which are counted in millionths.
func (d Dimension) Shown(amount int64) float64 {
	if d == DimCost {
		return float64(amount) / 1e6
	}
	return float64(amount)
}

// Amounts is how much of each dimension something takes, at least 0 each.
type Amounts [NumDimensions]int64

// Quotas is quotas.yaml: the LLM providers' limits, and the shares of them that tenants have. It is
// immutable.
type Quotas struct {
	// Nodes of the quota trees, every parent before its children. A tree begins with a
	// pool: the one without a provider, which comes first, holds the budgets of the groups
	// themselves, the others the limits of one provider each.
	Nodes []QuotaNode
	// Prices, those for one model before those for a whole provider.
	Prices []Price
	// Unpriced is what becomes of calls and tasks of a model without a price where money is limited;
	// UnpricedPrice, of UnpricedCharge, is what they cost.
	Unpriced      UnpricedRule
	UnpricedPrice Price
	// AnyCaller: tasks and gateways may name groups, and gateways agents, that are not listed. Else they are
	// refused, where any groups are.
	AnyCaller bool
	// Location in which calendar periods begin; nil: UTC.
	Location *time.Location
	// RepayPercent, 0 to 100, bounds what is taken off a budget for what was borrowed or
	// overdrawn in the period before, and thereby the debt that is carried on.
	RepayPercent int64
	// ReservationTTL is how long a reservation stands that is not extended; TombstoneTTL for how long one
	// that has expired or ended is remembered.
	ReservationTTL, TombstoneTTL time.Duration
	// DefaultOutput is how many output tokens are assumed where nothing is known.
	DefaultOutput int64
	// AlertPercents, 1 to 100 and ascending, are the parts of a budget at which it is reported; nil:
	// DefaultAlertPercents.
	AlertPercents []int64
	// Loss are the pools as each coordinator admits calls to them by itself while it can ask no
	// leader: a tree of one node each. One that is not among them admits nothing then.
	Loss []QuotaNode
	// Routing has the weights, at least 0, by which calls choose among models.
	Routing RouteTerms
	// Adjustment are the rules by which a day's use changes weights and limits.
	Adjustment Adjustment
	// Ignored are the keys of the file that count no more, for people.
	Ignored []string
	// Source is the text of quotas.yaml without its comments, as Policy.Source; empty where
	// there is none.
	Source string
}

// DefaultAlertPercents are those where nothing else is said.
func DefaultAlertPercents() []int64 { return []int64{80, 90, 100} }

// Adjustment are rules that change quotas day by day (see package quotacontrol); nil: there is none.
type Adjustment struct {
	Idle *IdleRule
	Slow *SlowRule
}

// On reports whether there is any rule.
func (a *Adjustment) On() bool { return a.Idle != nil || a.Slow != nil }

// IdleRule takes Step points of weight, as long as MinWeight are left, from a node that has used less than
// BelowPercent of its own on so many Days in a row.
type IdleRule struct {
	BelowPercent    int64 // 1 to 100
	Days            int   // at least 1
	Step, MinWeight int64 // at least 1
}

// SlowRule raises the limits of a node that answers in more than Above on the average of a day: by Percent
// a day, up to MaxPercent.
type SlowRule struct {
	Above               time.Duration
	Percent, MaxPercent int64 // at least 1
}

// The names of the rules, as quotas.yaml has them.
const (
	RuleIdle = "idle"
	RuleSlow = "slow"
)

// QuotaKind is what a node of a quota tree stands for.
type QuotaKind uint8

// The kinds of nodes, from the root down.
const (
	QuotaPool  QuotaKind = iota // all there is: of a provider, or of no provider in particular
	QuotaModel                  // a model of a provider
	QuotaGroup                  // a tenant; groups may be nested
	QuotaAgent                  // an agent of a group
)

// String is the word shown to people.
func (k QuotaKind) String() string { return [...]string{"pool", "model", "group", "agent"}[k] }

// QuotaNode is one node of a quota tree.
type QuotaNode struct {
	// ID is unique among all nodes: the names from the root down, joined by "/".
	ID   string
	Kind QuotaKind
	// Name of the pool, model or group, or the agent's id.
	Name string
	// Parent is an index into Quotas.Nodes; -1 of a root.
	Parent int
	// Provider in whose tree this is, and the Model that it is, or is part of. In the pool without a
	// provider: the group's default for its tasks. Empty: none.
	Provider, Model string
	// Weight, at least 0, by which it shares with its siblings. With 0 its own part is nothing, and it is
	// served when no sibling waits.
	Weight int64
	// Budgets are amounts for a calendar period, Rates amounts for a short time, Seats how
	// much may run at one time. nil: no limit of its own.
	Budgets, Rates [NumDimensions]*QuotaLimit
	Seats          *QuotaLimit
	Borrowing      Borrowing
	// Beside are budgets for other periods than those of Budgets, which hold as well.
	Beside []BesideBudget
}

// BesideBudget is a budget that a node has beside the one of the same dimension for another period.
type BesideBudget struct {
	Dimension Dimension
	QuotaLimit
}

// UnpricedRule is what becomes of a call or task of a model that has no price, where a limit of money
// concerns it.
type UnpricedRule uint8

// The rules.
const (
	UnpricedRefuse UnpricedRule = iota // it is refused: it would be free
	UnpricedWarn                       // it costs nothing, and that is reported
	UnpricedCharge                     // it costs Quotas.UnpricedPrice
)

// ByWeight as the nominal amount of a limit stands for the weight's part of the parent's.
const ByWeight int64 = -1

// QuotaLimit is how much a node may use in one dimension.
type QuotaLimit struct {
	// Nominal amount that is the node's own, or ByWeight.
	Nominal int64
	// Period of a budget; Per and Burst of a rate: Nominal for every Per, of which Burst
	// may be taken at once. A Burst of 0 is worked out: the weight's part, or Nominal.
	Period Period
	Per    time.Duration
	Burst  int64
	// Borrow bounds what may be used beyond Nominal while others leave it, Lend what
	// others may take of it.
	Borrow, Lend Bound
}

// Bound is an upper bound.
type Bound struct {
	Kind  BoundKind
	Value int64
}

// BoundKind is what the value of a Bound means.
type BoundKind uint8

// The kinds of bounds.
const (
	BoundNone    BoundKind = iota // there is no bound
	BoundAmount                   // in the unit of the dimension
	BoundPercent                  // of the nominal amount
)

// BorrowRule is by which rule a budget may be exceeded while others leave theirs.
type BorrowRule uint8

// The rules.
const (
	// BorrowAccrued lends what its owner has not used of what has accrued to it so far:
	// an owner that comes back finds all that is still to accrue.
	BorrowAccrued BorrowRule = iota
	// BorrowGroupRemaining is FAIR-SHARE's simple rule: whatever the group has left may be
	// used by any of its members; a member that comes late may find nothing.
	BorrowGroupRemaining
	// BorrowNever: the nominal amount is all there is.
	BorrowNever
)

// Borrowing is a group's policy about what it borrows and lends.
type Borrowing struct {
	Rule BorrowRule
	// Priority, higher first, among those that wait for something to borrow.
	Priority int
	// NoGlobalPool keeps it from the part of the pool that no share claims.
	NoGlobalPool bool
	// SurchargePercent, at least 0, is what must be repaid beyond what was borrowed.
	SurchargePercent int64
	// HeadroomPercent of its nominal amount, 0 to 100, a lender always keeps.
	HeadroomPercent int64
}

// PeriodUnit is the length of a budget's period.
type PeriodUnit uint8

// The units.
const (
	PerMinute PeriodUnit = iota
	PerHour
	PerDay
	PerWeek // from Monday
	PerMonth
	PerYear
	// PerInterval is Period.Interval long, counted from 1970-01-01 in UTC.
	PerInterval
)

// Period is how often a budget begins anew.
type Period struct {
	Unit     PeriodUnit
	Interval time.Duration // of PerInterval, whole seconds, at least one
}

// String is the length of the period, as it stands in ids of what is for it: month, or 90s.
func (p Period) String() string {
	if p.Unit == PerInterval {
		return strconv.FormatInt(int64(p.Interval/time.Second), 10) + "s"
	}
	return [...]string{"minute", "hour", "day", "week", "month", "year"}[p.Unit]
}

// Price is what a model costs.
type Price struct {
	// Provider, Model and Operation it is for; an empty Model or Operation stands for
	// every one that has no price of its own.
	Provider, Model, Operation string
	// PerRequest in micro-USD; the others in micro-USD for a million tokens.
	PerRequest, InputPerMillion, OutputPerMillion int64
}

// QuotaLack is a limit that keeps a task waiting.
type QuotaLack struct {
	// Node of the quota trees whose Limit (budget, rate, seats) is used up in that dimension.
	Node      string
	Dimension Dimension
	Limit     string
	// RetryAt is when there may be enough; zero: when something that has it ends.
	RetryAt time.Time
	Text    string // all of it for people
}

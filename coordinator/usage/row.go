package usage

import (
	"cmp"

	"taskbus/coordinator"
)

// What a reservation was for.
const (
	SourceTask    = "task" // a task that Taskbus has assigned
	SourceCall    = "call" // a call through a gateway
	SourceUnknown = ""
)

// Key says whose usage a row is. Empty: no tenant's in particular; the day is never empty where
// rows are of days. Provider is the pool that was charged: of a provider with keys "provider@key".
type Key struct {
	Day                           string // 2006-01-02, in the quotas' time zone
	Group, Agent, Provider, Model string
	Source                        string
}

// Others is the name of providers and models that stand together in one row: those that an agent has
// named beyond as many of a day as have rows of their own.
const Others = "(others)"

// Compare orders keys: by day, group, agent, provider, model and source.
func (k Key) Compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Day, o.Day), cmp.Compare(k.Group, o.Group), cmp.Compare(k.Agent, o.Agent),
		cmp.Compare(k.Provider, o.Provider), cmp.Compare(k.Model, o.Model), cmp.Compare(k.Source, o.Source))
}

// Most is where a count of one row ends: what is beyond it is not believed, and not counted.
// So many rows can be added up without a thought of overflow.
const Most int64 = 1_000_000_000_000_000

// Counts is how much was used, and how reservations ended.
type Counts struct {
	Requests, InputTokens, OutputTokens, TotalTokens int64
	Cost                                             int64 // micro-USD
	// Settled at what was used, Released unused, Expired because no end was reported in time. Late is
	// how many of Settled had expired before, and are among Expired, too.
	Settled, Released, Expired, Late int64
}

// Calls is how many reservations have ended.
func (c *Counts) Calls() int64 { return c.Settled + c.Released + c.Untold() }

// Untold is how many have expired, and were not reported later either.
func (c *Counts) Untold() int64 { return max(0, c.Expired-c.Late) }

// Zero reports that there is nothing to add.
func (c *Counts) Zero() bool { return *c == Counts{} }

// Fields are the counts in the order of the columns in which they are stored.
func (c *Counts) Fields() []*int64 {
	return []*int64{&c.Requests, &c.InputTokens, &c.OutputTokens, &c.TotalTokens, &c.Cost, &c.Settled, &c.Released,
		&c.Expired, &c.Late}
}

// Add adds, up to Most; costs, which credits of a bill make negative, down to -Most.
func (c *Counts) Add(o *Counts) {
	mine, others := c.Fields(), o.Fields()
	for i := range mine {
		*mine[i] = min(Most, max(-Most, *mine[i]+*others[i]))
	}
}

func (c *Counts) use(a *coordinator.Amounts) {
	at := func(d coordinator.Dimension) int64 { return min(max(a[d], 0), Most) }
	c.Add(&Counts{
		Requests: at(coordinator.DimRequests), InputTokens: at(coordinator.DimInputTokens),
		OutputTokens: at(coordinator.DimOutputTokens),
		TotalTokens:  at(coordinator.DimTotalTokens), Cost: at(coordinator.DimCost),
	})
}

// Row is the usage of one Key.
type Row struct {
	Key
	Counts
}

// sorted are the rows of a map, in the order of their keys.
func sorted(of map[Key]*Counts) []Row {
	rows := make([]Row, 0, len(of))
	for k, c := range of { // order does not matter: they are sorted
		rows = append(rows, Row{k, *c})
	}
	Sort(rows)
	return rows
}

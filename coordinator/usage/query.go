package usage

import (
	"slices"

	"taskbus/coordinator"
)

// By is what time one row is of.
type By string

// The values.
const (
	ByDay   By = "day"   // Row.Day is 2006-01-02
	ByMonth By = "month" // Row.Day is 2006-01
	ByTotal By = "total" // Row.Day is empty
)

// Query is a question about rows. What is empty restricts nothing. A Provider stands for all of its
// keys, unless one of these is named.
type Query struct {
	Group, Agent, Provider, Model string
	From, To                      string // days, both included
	By                            By
	Limit                         int // 0: all
}

// BilledAs is under which name a pool's usage is added up: its provider's, whose bill it is on, unless
// the pool itself is the one that was asked for.
func BilledAs(pool, asked string) string {
	if pool == asked {
		return pool
	}
	return coordinator.ProviderOfPool(pool)
}

// Sort puts rows in the order of their keys. PostgreSQL has an order of its own.
func Sort(rows []Row) {
	slices.SortFunc(rows, func(a, b Row) int { return a.Key.Compare(b.Key) })
}

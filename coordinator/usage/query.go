package usage

import "slices"

// By is what time one row is of.
type By string

// The values.
const (
	ByDay   By = "day"   // Row.Day is 2006-01-02
	ByMonth By = "month" // Row.Day is 2006-01
	ByTotal By = "total" // Row.Day is empty
)

// Query is a question about rows. What is empty restricts nothing.
type Query struct {
	Group, Agent, Provider, Model string
	From, To                      string // days, both included
	By                            By
	Limit                         int // 0: all
}

// Sort puts rows in the order of their keys. PostgreSQL has an order of its own.
func Sort(rows []Row) {
	slices.SortFunc(rows, func(a, b Row) int { return a.Key.Compare(b.Key) })
}

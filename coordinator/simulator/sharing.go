package simulator

import (
	"fmt"
	"math"
	"time"
)

// Sharing is what a scenario of tenants that share an LLM provider has in place of fleet,
// workloads and strategies: every policy of which goes next is played at all Weights. Package
// sharing plays it.
type Sharing struct {
	// Slots is how many calls the provider works on at a time.
	Slots int
	// PerInput and PerOutput are how long a call takes for each of its tokens.
	PerInput, PerOutput time.Duration
	// MaxOutput is how many output tokens callers allow a call at most.
	MaxOutput int
	Tenants   []Tenant
	// Weights of the tenants, in their order, from 1 on; each list is a comparison.
	Weights [][]int64
}

// Tenant is one of those that share. Its calls are those of a trace, or chance makes them.
type Tenant struct {
	Name string
	// Trace is azure-code, azure-conv, or a file; empty: Calls are made. SpeedUp divides the
	// time between its calls.
	Trace   string
	SpeedUp float64
	Calls   Calls
}

// Calls is how chance makes calls: so many, at random with Rate per second, with inputs and
// outputs of those lengths in tokens, independent of each other.
type Calls struct {
	Count         int
	Rate          float64
	Input, Output Distribution
}

// Draw makes the calls of the tenant with that number. Inputs and outputs are whole and at
// least 1, outputs at most maxOutput.
func (c *Calls) Draw(seed uint64, number, maxOutput int) []Request {
	calls := make([]Request, c.Count)
	at := int64(0)
	for i := range calls {
		u := func(what uint64) float64 { return Draw(seed, what, uint64(number), uint64(i)) }
		at += nanoseconds(exponential(1/c.Rate, u(drawArrival)))
		calls[i] = Request{
			At:     time.Duration(at),
			Input:  max(1, math.Round(c.Input.Quantile(u(drawInput)))),
			Output: min(max(1, math.Round(c.Output.Quantile(u(drawOutput)))), float64(maxOutput)),
		}
	}
	return calls
}

// The limits of a scenario of tenants.
const (
	maxTenants = 16
	maxCalls   = 1_000_000 // that chance makes for a tenant
	maxTokens  = 10_000_000
	// MaxSlots is how many a provider may have, MaxTenantWeight the largest weight of a tenant.
	MaxSlots        = 100_000
	MaxTenantWeight = 1_000_000
)

// drawn is how many calls chance makes.
func (s *Sharing) drawn() (n int) {
	for i := range s.Tenants {
		n += s.Tenants[i].Calls.Count
	}
	return n
}

// Excess says how far all runs with so many seeds and calls of all tenants are beyond the
// limit, and what would help; "" when they are not.
func (s *Sharing) Excess(seeds, calls int) string {
	// Each is dispatched up to twice under each of seven policies.
	all := 14 * float64(seeds) * float64(calls) * float64(len(s.Weights))
	if all <= maxMoments {
		return ""
	}
	return fmt.Sprintf(
		"%d seeds × %d weights × %d calls of all tenants, under each policy, are %.3g dispatches, and %.3g are the most; "+
			"have fewer seeds, weights or calls",
		seeds, len(s.Weights), calls, all, float64(maxMoments))
}

package coordinator

import (
	"strings"
	"time"
)

// Service is a model of a provider that a call may go to. Provider may name one of its keys as
// "provider@key".
type Service struct {
	Provider string `rec:"1,name"`
	Model    string `rec:"2,name"`
}

// ProviderWord is what a provider has said of its own limits when it answered a call, or refused
// it. The zero value says nothing.
type ProviderWord struct {
	// Status of its answer (HTTP); 0: there was none.
	Status int `rec:"1"`
	// RetryAfter is for how long it wants to be left alone; 0: it has not said.
	RetryAfter time.Duration `rec:"2"`
	// Told has a bit for each dimension of which it has said how much Remains in the window at hand.
	Told    uint8   `rec:"3"`
	Remains Amounts `rec:"4"`
	// Latency from the call to its answer, or to its first token; 0: not measured.
	Latency time.Duration `rec:"5"`
}

// Throttled reports whether the provider refused a call because of a limit of its own.
func (w *ProviderWord) Throttled() bool { return w.Status == 429 || w.Status == 529 }

// Failed reports whether there was no answer, or none that helps: an error of the provider's own.
func (w *ProviderWord) Failed() bool { return w.Status == 0 || w.Status >= 500 }

// PoolHeard says how a provider's pool or model stands by its provider's own answers: for how long it
// wants no call, and at what part of its rates it is used.
type PoolHeard struct {
	// Node of the pool or model.
	Node string    `rec:"1,name"`
	At   time.Time `rec:"2"`
	// BlockedUntil it is left alone; zero: it is not.
	BlockedUntil time.Time `rec:"3"`
	// PerMille of its rates that are used: 1000, less after it has refused a call. CutAt is when it
	// was reduced last, and Refusals how often in a row it has refused a call without saying for
	// how long.
	PerMille int64     `rec:"4"`
	CutAt    time.Time `rec:"5"`
	Refusals int64     `rec:"6"`
	// By is the agent whose own report set this state; empty: a gateway's report, or none. Such a report
	// alone does not close it again before RestUntil, nor take anything off its rates before TakesAfter.
	By         AgentID   `rec:"7"`
	RestUntil  time.Time `rec:"8"`
	TakesAfter time.Time `rec:"9"`
	// Taken is what was taken off its rates because less remains, by its report, than was counted.
	Taken Amounts `rec:"10"`
	// Before: it is part of a snapshot. Calls of which the answer was reported are counted then, up to
	// a bound, with how many in a million succeeded of late, and their mean latency.
	Before  bool          `rec:"11"`
	Calls   int64         `rec:"12"`
	Success int64         `rec:"13"`
	Latency time.Duration `rec:"14"`
	// Teller is the agent that reported the latest of them itself, empty: a gateway did; and
	// what success and latency were when its words in a row began; of latency 0: it was not known, -1:
	// by one agent alone.
	Teller       AgentID       `rec:"15"`
	BeganSuccess int64         `rec:"16"`
	BeganLatency time.Duration `rec:"17"`
}

// RouteScore is how a model that a call, or a task, might go to was judged.
type RouteScore struct {
	Service
	// Pool is its node; empty: no quota concerns it.
	Pool string
	// Chosen: it goes there. Lacks is why it cannot; nil: it could.
	Chosen bool
	Lacks  *QuotaLack
	// Score is the mean of the terms by their weights; each is 0 to 1, 1 the best.
	Score float64
	Terms RouteTerms
}

// MaxAlternatives is how many models a call or a task may name at most.
const MaxAlternatives = 16

// RouteChoice is how the models that something might go to were judged, by these weights of their terms.
type RouteChoice struct {
	Routes  []RouteScore
	Weights RouteTerms
}

// RouteTerms are what a route is judged by: how much of its quota remains, how it compares with the
// cheapest and with the fastest, and how often it has answered of late.
type RouteTerms struct{ Remaining, Price, Latency, Success float64 }

// A provider of which quotas.yaml lists several keys has a pool for each of them, "provider@key";
// any other is itself a pool. What follows is all there is to how names of pools and of providers
// go together. Neither names of providers nor keys hold an @.

// PoolOfKey names the pool of one of a provider's keys; without a key that of the provider.
func PoolOfKey(provider, key string) string {
	if key == "" {
		return provider
	}
	return provider + keyMark + key
}

// CutPool gives the provider of a pool, and its key; empty: it has none.
func CutPool(pool string) (provider, key string) {
	provider, key, _ = strings.Cut(pool, keyMark)
	return provider, key
}

// ProviderOfPool is the provider of a pool, which bills what is used of it.
func ProviderOfPool(pool string) string {
	provider, _ := CutPool(pool)
	return provider
}

// StandsFor reports whether name means the pool as well: it is the pool's own name, or that of its
// provider, which stands for all of its keys.
func StandsFor(name, pool string) bool { return name == pool || name == ProviderOfPool(pool) }

// PoolsOfKeys is what the names of all pools begin with that name stands for beside the one that is
// called so; empty: there can be none.
func PoolsOfKeys(name string) string {
	if name == "" || name != ProviderOfPool(name) {
		return ""
	}
	return name + keyMark
}

const keyMark = "@"

package quota

import (
	"net/http"
	"strings"
	"time"
)

// Service is a model of a provider. Provider may name one of its keys as "provider@key".
type Service struct {
	Provider string `json:"provider"`
	Model    string `json:"model,omitempty"`
}

// Call is an LLM call, or several alike, for which quota is asked (docs/reference/calls.md).
type Call struct {
	// ID of the reservation, 1 to 128 letters, digits and . _ : -; empty: the client makes one. To
	// ask again with the same one is harmless; for another call it is ErrTaken.
	ID string `json:"reservation_id,omitempty"`
	// Group that is charged; empty: the agent's. Only a gateway may name another.
	Group string `json:"group_id,omitempty"`
	// Provider, Model and Operation that are called; empty: the group's default.
	Provider  string `json:"provider,omitempty"`
	Model     string `json:"model,omitempty"`
	Operation string `json:"operation,omitempty"`
	// Alternatives, at most 16, stand for Provider and Model: the coordinator chooses.
	Alternatives []Service `json:"alternatives,omitempty"`
	// Requests that it is; 0 counts as 1.
	Requests int64 `json:"requests,omitempty"`
	// InputTokens and OutputTokens that it takes; nil: the coordinator estimates them.
	InputTokens  *int64 `json:"input_tokens,omitempty"`
	OutputTokens *int64 `json:"output_tokens,omitempty"`
	// CostUSD in US dollars; 0: by the prices of quotas.yaml.
	CostUSD float64 `json:"cost_usd,omitempty"`
	// Concurrency is how many seats it takes while it runs; nil: 1. Not for Consume and Charge.
	Concurrency *int64 `json:"concurrency,omitempty"`
	// Priority, 0 to 3; nil: 1. A call stands back where tasks of that priority, or a higher one, wait.
	Priority *int `json:"priority,omitempty"`
	// TTL of the reservation, 1 s to 24 h; 0: as quotas.yaml says. Not for Consume and Charge.
	TTL time.Duration `json:"-"`
	// NoBorrowing: budgets may not be exceeded by what others leave.
	NoBorrowing bool `json:"-"`
	// ChargeUntold: if its end is not reported, it is charged as reserved, and not given back.
	ChargeUntold bool `json:"-"`
}

// Usage is what calls have used.
type Usage struct {
	// Requests that it was; 0 counts as 1.
	Requests     int64 `json:"requests,omitempty"`
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	// CostUSD in US dollars; 0: by the prices of quotas.yaml.
	CostUSD float64 `json:"cost_usd,omitempty"`
}

// add adds up what several calls have used, to no more than a coordinator takes of one reservation: more it
// would refuse as a whole. What is below 0, or no number, counts as 0.
func (u *Usage) add(o Usage) {
	u.Requests = bounded(u.Requests + bounded(max(o.Requests, 1)))
	u.InputTokens = bounded(u.InputTokens + bounded(o.InputTokens))
	u.OutputTokens = bounded(u.OutputTokens + bounded(o.OutputTokens))
	if o.CostUSD > 0 {
		u.CostUSD = min(u.CostUSD+o.CostUSD, maxCost)
	}
}

// More is what a reservation is to be extended by.
type More struct {
	Requests     int64   `json:"requests,omitempty"`
	InputTokens  int64   `json:"input_tokens,omitempty"`
	OutputTokens int64   `json:"output_tokens,omitempty"`
	CostUSD      float64 `json:"cost_usd,omitempty"`
	Concurrency  int64   `json:"concurrency,omitempty"`
	// TTL from now on, 1 s to 24 h; 0: as before.
	TTL time.Duration `json:"-"`
}

// Amounts is how much of each dimension; costs in US dollars.
type Amounts struct {
	Requests     int64   `json:"requests"`
	InputTokens  int64   `json:"input_tokens"`
	OutputTokens int64   `json:"output_tokens"`
	TotalTokens  int64   `json:"total_tokens"`
	CostUSD      float64 `json:"cost_usd"`
	Concurrency  int64   `json:"concurrency"`
}

// Answer is the coordinator's answer about a call that it has granted, or been told of.
type Answer struct {
	// ReservationID is empty of Check, which makes none.
	ReservationID string `json:"reservation_id"`
	// Standing: it had been done before.
	Standing bool `json:"standing"`
	// Unconfirmed: the coordinators had no leader to ask, and on_loss of quotas.yaml has let it pass;
	// it is charged when they have one. Tell its end within two minutes: else what was asked for is
	// charged. The coordinator that has granted it alone knows it until then: the client tells that one.
	Unconfirmed bool `json:"unconfirmed"`
	// AgentID, GroupID, Provider, Model and Pool that are charged.
	AgentID  string `json:"agent_id"`
	GroupID  string `json:"group_id"`
	Provider string `json:"provider"`
	Model    string `json:"model"`
	Pool     string `json:"pool"`
	// Reserved is what is set aside, Charged what was charged for good; nil: the other is told.
	Reserved *Amounts `json:"reserved"`
	Charged  *Amounts `json:"charged"`
	// ExpiresAt is when the reservation ends by itself, by the coordinator's clock. Zero: nothing
	// is set aside, because no quota concerns the call; there is nothing to settle then.
	ExpiresAt time.Time `json:"expires_at"`
	// Borrowed: some of it comes from shares that others leave unused.
	Borrowed bool `json:"borrowed"`

	from string // URL of the coordinator that has answered
}

// Response is how a provider has answered a call, for the coordinator to learn its limits from.
type Response struct {
	// Status of its answer (HTTP); 0: there was none.
	Status int `json:"status"`
	// LatencyMS is the time from the call to its headers, in milliseconds.
	LatencyMS float64 `json:"latency_ms,omitempty"`
	// Headers that say something of its limits.
	Headers map[string]string `json:"headers,omitempty"`
}

// The bounds of what is passed on of a provider's headers: the coordinator reads 8 KiB in all.
const (
	maxHeaders     = 24
	maxHeaderValue = 64
)

// Heard makes a Response of what a provider has answered, with the headers that concern its limits
// and no others. A status that is none of HTTP counts as no answer.
func Heard(status int, latency time.Duration, h http.Header) *Response {
	if status < 100 || status > 599 {
		status = 0
	}
	r := &Response{Status: status, LatencyMS: min(max(0, float64(latency)/float64(time.Millisecond)), 86_400_000)}
	for name, values := range h {
		if len(values) == 0 || len(values[0]) > maxHeaderValue || len(r.Headers) >= maxHeaders || !speaksOfLimits(name) {
			continue
		}
		if r.Headers == nil {
			r.Headers = make(map[string]string)
		}
		r.Headers[name] = values[0]
	}
	return r
}

// speaksOfLimits reports whether a header is one of those that package coordinator/heard reads.
func speaksOfLimits(name string) bool {
	name = strings.ToLower(name)
	return name == "retry-after" || name == "retry-after-ms" ||
		(strings.HasPrefix(name, "x-ratelimit-") || strings.HasPrefix(name, "anthropic-ratelimit-")) &&
			!strings.Contains(name, "-limit-") && !strings.HasSuffix(name, "-limit")
}

// throttled reports whether the provider has refused a call because of a limit of its own.
func (r *Response) throttled() bool { return r != nil && (r.Status == 429 || r.Status == 529) }

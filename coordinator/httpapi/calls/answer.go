package calls

import (
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/gateway"
	"taskbus/coordinator/view"
)

// CallAnswer is the answer about a call that was granted, or told of.
type CallAnswer struct {
	// ReservationID is empty of what was only checked: nothing was made.
	ReservationID string `json:"reservation_id,omitempty"`
	// Granted is always true: what is refused is a Problem.
	Granted bool `json:"granted"`
	// Standing: it had been done before, and is answered again.
	Standing bool `json:"standing,omitempty"`
	// Unconfirmed: no leader could be asked; it is charged when one can be.
	Unconfirmed bool   `json:"unconfirmed,omitempty"`
	Agent       string `json:"agent_id,omitempty"`
	Group       string `json:"group_id,omitempty"`
	Provider    string `json:"provider,omitempty"`
	Model       string `json:"model,omitempty"`
	// Pool is the node of the provider or model that it is charged to.
	Pool string `json:"pool,omitempty"`
	// Reserved is what is set aside, Charged what was charged for good.
	Reserved *CallAmounts `json:"reserved,omitempty"`
	Charged  *CallAmounts `json:"charged,omitempty"`
	// ExpiresAt is when it ends by itself.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	// Borrowed: some of it comes from shares that others leave unused.
	Borrowed bool `json:"borrowed,omitempty"`
	// Routes are the alternatives as they were judged.
	Routes []view.CallRoute `json:"routes,omitempty"`
}

// CallAmounts is how much of each dimension; costs in US dollars.
type CallAmounts struct {
	Requests     int64   `json:"requests"`
	InputTokens  int64   `json:"input_tokens"`
	OutputTokens int64   `json:"output_tokens"`
	TotalTokens  int64   `json:"total_tokens"`
	CostUSD      float64 `json:"cost_usd"`
	Concurrency  int64   `json:"concurrency,omitempty"`
}

func callAnswerOf(id string, op coordinator.CallOp, x *coordinator.CallAnswer) *CallAnswer {
	a := &CallAnswer{
		ReservationID: id, Granted: true, Standing: x.Standing, Unconfirmed: x.Own, Agent: string(x.Agent), Group: x.Group,
		Provider: x.Provider, Model: x.Model, Pool: x.Pool, ExpiresAt: x.Until, Borrowed: x.Borrowed,
	}
	switch op {
	case coordinator.CallReserve, coordinator.CallExtend, coordinator.CallCheck:
		a.Reserved = amountsOf(&x.Amounts)
	default:
		a.Charged = amountsOf(&x.Amounts)
	}
	a.Routes = gateway.CallRoutes(x)
	return a
}

func amountsOf(a *coordinator.Amounts) *CallAmounts {
	return &CallAmounts{
		Requests: a[coordinator.DimRequests], InputTokens: a[coordinator.DimInputTokens],
		OutputTokens: a[coordinator.DimOutputTokens],
		TotalTokens:  a[coordinator.DimTotalTokens], CostUSD: float64(a[coordinator.DimCost]) / 1e6,
		Concurrency: a[coordinator.DimConcurrency],
	}
}

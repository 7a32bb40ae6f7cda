package messages

import (
	"encoding/json"

	"taskbus/coordinator"
)

// Usage is [coordinator.Usage] as it stands in a message; what is 0 or empty is
// left out.
type Usage coordinator.Usage

// usageFields give the fields their names on the bus.
type usageFields struct {
	Requests     float64 `json:"requests,omitempty"`
	InputTokens  float64 `json:"input_tokens,omitempty"`
	OutputTokens float64 `json:"output_tokens,omitempty"`
	CostUSD      float64 `json:"cost_usd,omitempty"`
	Provider     string  `json:"provider,omitempty"`
	Model        string  `json:"model,omitempty"`
}

// MarshalJSON gives the fields their names on the bus.
func (u Usage) MarshalJSON() ([]byte, error) { return json.Marshal(usageFields(u)) }

// EstimatedUsage is what a task will probably take, and the models that it may go to instead of one
// provider and model, at most 16: [coordinator.Task.Alternatives].
type EstimatedUsage struct {
	Usage
	Alternatives []coordinator.Service
	// NoTokens: input_tokens and output_tokens are both given, and 0. Tokens that are not given are
	// estimated.
	NoTokens bool
}

// MarshalJSON gives the fields their names on the bus.
func (u EstimatedUsage) MarshalJSON() ([]byte, error) {
	type service struct {
		Provider string `json:"provider"`
		Model    string `json:"model,omitempty"`
	}
	var alternatives []service
	for _, s := range u.Alternatives {
		alternatives = append(alternatives, service(s))
	}
	stated := func(tokens float64) *float64 { // a 0 that is stated is not left out
		if tokens == 0 && !u.NoTokens {
			return nil
		}
		return &tokens
	}
	return json.Marshal(struct {
		Requests     float64   `json:"requests,omitempty"`
		InputTokens  *float64  `json:"input_tokens,omitempty"`
		OutputTokens *float64  `json:"output_tokens,omitempty"`
		CostUSD      float64   `json:"cost_usd,omitempty"`
		Provider     string    `json:"provider,omitempty"`
		Model        string    `json:"model,omitempty"`
		Alternatives []service `json:"alternatives,omitempty"`
	}{u.Requests, stated(u.InputTokens), stated(u.OutputTokens), u.CostUSD, u.Provider, u.Model, alternatives})
}

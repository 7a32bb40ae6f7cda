package messages

import (
	"encoding/json"

	"taskbus/coordinator"
)

// Usage is [coordinator.Usage] as it stands in a message; what is 0 or empty is
// left out.
type Usage coordinator.Usage

// MarshalJSON gives the fields their names on the bus.
func (u Usage) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Requests     float64 `json:"requests,omitempty"`
		InputTokens  float64 `json:"input_tokens,omitempty"`
		OutputTokens float64 `json:"output_tokens,omitempty"`
		CostUSD      float64 `json:"cost_usd,omitempty"`
		Provider     string  `json:"provider,omitempty"`
		Model        string  `json:"model,omitempty"`
	}(u))
}

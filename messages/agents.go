package messages

import (
	"taskbus/coordinator"
	"taskbus/schemas"
)

// The words of package coordinator that stand in messages, for those who write
// and read messages without being a coordinator: agents.
type (
	TaskID  = coordinator.TaskID
	AgentID = coordinator.AgentID
)

// What an agent says of itself in agent.status.
const (
	Ready   = coordinator.StatusReady
	Offline = coordinator.StatusOffline
)

// StandardDecoder is a decoder over the embedded schemas, under DefaultLimits but
// for the largest body in bytes (0 leaves its default). An error means that this
// build is broken.
func StandardDecoder(maxBytes int) (*Decoder, error) {
	set, err := schemas.Compile()
	if err != nil {
		return nil, err
	}
	return NewDecoder(set, Limits{MaxBytes: maxBytes}), nil
}

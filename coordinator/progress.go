package coordinator

import "time"

// Progress is one task.progress message, validated. It is not changed after it is made.
type Progress struct {
	Task  TaskID  `rec:"1"`
	Agent AgentID `rec:"2"`
	// DispatchID names the attempt; empty when the agent does not say.
	DispatchID string `rec:"3"`
	// Timestamp is the agent's own clock.
	Timestamp time.Time `rec:"4"`
	// TraceID as the agent says.
	TraceID string `rec:"-"`
	// Percent of the work that is done; NaN when not given. It and what follows is for the producer: never journalled
	// or logged.
	Percent float64 `rec:"-"`
	Message string  `rec:"-"`
	// Data is a JSON object, byte for byte; empty when not given.
	Data []byte `rec:"-"`
}

package observer

import "github.com/rs/zerolog"

// noise is a kind of log line that a sender can provoke as often as it likes.
type noise uint8

const (
	noiseParked noise = iota
	noiseRefusedTask
	noiseDuplicate
	noiseReplyTo
	noiseUnencodable
	noiseNotTaken
	noiseInvalidStatus
	noiseInvalidResult
	noiseInvalidProgress
	noiseInvalidRequest
	noiseWrongAgent
	noiseIdleCancel
	noiseUntold
	noiseQueue
	noiseQueueThere
	noiseTakeBack
	noiseLane
	noiseAuction
	noiseUsage
	noiseUnpriced
	noiseFault
	numNoises = iota
)

// noiseNames say of which kind lines were held back.
var noiseNames = [numNoises]string{
	noiseParked:          "parked messages",
	noiseRefusedTask:     "refused tasks",
	noiseDuplicate:       "duplicates",
	noiseReplyTo:         "refused reply_to",
	noiseUnencodable:     "messages that cannot be sent",
	noiseNotTaken:        "notices that the broker does not take",
	noiseInvalidStatus:   "invalid heartbeats",
	noiseInvalidResult:   "invalid results",
	noiseInvalidProgress: "invalid progress",
	noiseInvalidRequest:  "invalid bids and claims",
	noiseWrongAgent:      "results of another agent",
	noiseIdleCancel:      "cancels without effect",
	noiseUntold:          "agents that cannot be told",
	noiseQueue:           "agents' queues",
	noiseQueueThere:      "agents' queues that are there",
	noiseTakeBack:        "queues taken back",
	noiseLane:            "lanes",
	noiseAuction:         "auctions",
	noiseUsage:           "usage",
	noiseUnpriced:        "calls of models without a price",
	noiseFault:           "faults of the program",
}

// gated begins a line of a kind that may come in floods (see telemetry.Kind).
func (o *Observer) gated(kind noise, level zerolog.Level) *zerolog.Event {
	return o.noise[kind].At(level)
}

package bus

import (
	"strings"
	"time"
)

// Names of Taskbus's own queues, streams and exchanges. They are part of the
// contract with producers, agents and operators and never change.
const (
	QueueAssign     = "task.assign"
	QueueAssignHigh = "task.assign.high"
	QueueReassign   = "task.reassign"
	QueueRequest    = "task.request"
	QueueProgress   = "task.progress"
	QueueFailed     = "assignment.failed"
	QueueDead       = "task.dead"
	QueueLeader     = "coordinator.leader" // the lock: exclusive, not part of the topology
	lanePrefix      = "task.lane."         // and the lane's name: made when it is first needed

	StreamStatus  = "agent.status"
	StreamResult  = "task.result"
	StreamJournal = "coordinator.journal"

	ExchangeIn      = "taskbus"         // everything inwards; producers publish here
	ExchangeAgents  = "taskbus.agents"  // agents inwards: no key of it, CC or BCC leads to tasks
	ExchangeEvents  = "taskbus.events"  // coordinator outwards
	ExchangeControl = "taskbus.control" // coordinator to agents, key = agent id
)

// AssignQueue is where a task of that priority is submitted: what is urgent (2, 3) in its own queue,
// so that it does not wait behind a backlog of the rest that is larger than the coordinator's window.
func AssignQueue(priority int) string {
	if priority >= 2 {
		return QueueAssignHigh
	}
	return QueueAssign
}

// Inwards tells whether an exchange is one by which messages come to Taskbus.
func Inwards(exchange string) bool { return exchange == ExchangeIn || exchange == ExchangeAgents }

// Profile chooses the kinds of the queues that producers and agents share with
// Taskbus (`queues:` in agents.yaml).
type Profile string

// The profiles. ProfileClassic is for fleets whose members declare plain durable
// queues themselves; it promises less (no at-least-once dead-lettering).
const (
	ProfileQuorum  Profile = "quorum"
	ProfileClassic Profile = "classic"
)

// Limits that cannot be changed once a queue exists.
const (
	agentDeliveryLimit = 5
	ownDeliveryLimit   = 1000
	failedTTL          = 7 * 24 * time.Hour
	failedMaxLength    = 1_000_000
	agentConsumerTime  = 24 * time.Hour
	// Only the newest report of a task matters: without a reader the oldest are dropped, and none is refused. A leader
	// that takes over reads the last minute, so that the leases of tasks in progress are as long as before. A quorum
	// queue, because only there a queue of a node that is gone takes messages.
	progressTTL       = time.Minute
	progressMaxLength = 50_000
	segmentStatus     = 10_000_000
	segmentLarge      = 50_000_000
)

// Standard is the topology of docs/ARCHITECTURE.md for the given agents' queues.
func Standard(mode Mode, profile Profile, agentQueues []string) Topology {
	t := Topology{
		Mode: mode,
		Exchanges: []Exchange{
			{ExchangeIn, Topic}, {ExchangeAgents, Topic}, {ExchangeEvents, Topic}, {ExchangeControl, Direct},
		},
		Bindings: []Binding{
			{ExchangeIn, QueueAssign, "task.assign"},
			{ExchangeIn, QueueAssignHigh, "task.assign.high"},
			{ExchangeIn, StreamStatus, "agent.status.#"},
			{ExchangeIn, StreamResult, "task.result.#"},
			{ExchangeIn, QueueRequest, "task.request.#"},
			{ExchangeAgents, StreamStatus, "agent.status.#"},
			{ExchangeAgents, StreamResult, "task.result.#"},
			{ExchangeAgents, QueueRequest, "task.request.#"},
			{ExchangeAgents, QueueProgress, "task.progress.#"},
			{ExchangeEvents, QueueFailed, "assignment.failed.#"},
		},
	}
	own := func(name string) Queue {
		return Queue{Name: name, Kind: Quorum, DeadLetter: QueueDead, DeliveryLimit: ownDeliveryLimit}
	}
	shared := func(q Queue) Queue {
		if profile == ProfileClassic {
			return Queue{Name: q.Name, Kind: Classic}
		}
		return q
	}
	t.Queues = []Queue{
		{Name: QueueDead, Kind: Quorum, DeliveryLimit: ownDeliveryLimit},
		shared(own(QueueAssign)),
		own(QueueAssignHigh),
		own(QueueReassign),
		own(QueueRequest),
		{Name: QueueProgress, Kind: Quorum, DeliveryLimit: ownDeliveryLimit, TTL: progressTTL,
			MaxLength: progressMaxLength, DropHead: true},
		shared(Queue{Name: QueueFailed, Kind: Quorum, DeliveryLimit: ownDeliveryLimit, TTL: failedTTL,
			MaxLength: failedMaxLength, DropHead: true}),
		shared(Queue{Name: StreamStatus, Kind: Stream, MaxAge: time.Hour, MaxBytes: 200_000_000,
			SegmentBytes: segmentStatus}),
		shared(Queue{Name: StreamResult, Kind: Stream, MaxAge: 7 * 24 * time.Hour, MaxBytes: 5_000_000_000,
			SegmentBytes: segmentLarge}),
		{Name: StreamJournal, Kind: Stream, MaxAge: 30 * 24 * time.Hour, MaxBytes: 10_000_000_000,
			SegmentBytes: segmentLarge},
	}
	for _, name := range agentQueues {
		t.Queues = append(t.Queues, AgentQueue(profile, name))
	}
	return t
}

// OwnQueue finds the queue of Standard that has this name; agents' queues are not
// among them.
func OwnQueue(profile Profile, name string) (Queue, bool) {
	for _, q := range Standard(Declare, profile, nil).Queues {
		if q.Name == name {
			return q, true
		}
	}
	return Queue{}, false
}

// LaneQueue is where the tasks of a lane wait.
func LaneQueue(lane string) Queue {
	return Queue{Name: lanePrefix + lane, Kind: Quorum, DeadLetter: QueueDead, DeliveryLimit: ownDeliveryLimit}
}

// LaneOf is the lane whose queue has that name; empty: it is none of a lane.
func LaneOf(queue string) string {
	lane, is := strings.CutPrefix(queue, lanePrefix)
	if !is {
		return ""
	}
	return lane
}

// AgentQueue is the queue one agent consumes.
func AgentQueue(profile Profile, name string) Queue {
	if profile == ProfileClassic {
		return Queue{Name: name, Kind: Classic}
	}
	return Queue{
		Name: name, Kind: Quorum, DeadLetter: QueueReassign,
		DeliveryLimit: agentDeliveryLimit, ConsumerTimeout: agentConsumerTime,
	}
}

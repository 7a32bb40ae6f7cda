package httpapi

import (
	"context"
	"errors"

	"taskbus/coordinator"
	"taskbus/coordinator/view"
)

// Source is what the HTTP interface asks of the running service. Every method is
// safe for concurrent use and answers at once, or when ctx ends.
type Source interface {
	// Health judges the whole; it never waits for the broker.
	Health(ctx context.Context) view.Health
	// Ready reports whether tasks are being taken right now, and if not why.
	Ready(ctx context.Context) view.Readiness
	// Status is everything an operator asks first.
	Status(ctx context.Context) (view.Status, error)
	// Task is what is remembered of a recent task; false when it is not (any more).
	Task(ctx context.Context, id string) (view.Task, bool)
	// Tasks lists recent tasks, the newest first, at most limit of them.
	Tasks(ctx context.Context, filter view.TaskFilter) []view.Task

	// SubmitTask gives the broker a task.assign, and returns its id when the broker has it. *BadTask, and ErrOtherTask:
	// nothing was done. After any other error the task may be with the broker, and may be submitted again under its id.
	SubmitTask(ctx context.Context, t Submission) (id string, err error)
	// TaskStory is Task with its attempts, without what keeps it waiting: cheap enough to be asked for at each change.
	TaskStory(ctx context.Context, id string) (view.TaskStory, bool)
	// WatchTask begins to tell that something may have become of a task, known yet or not, until stop is called.
	WatchTask(id string) (news <-chan struct{}, stop func())
	// TaskOutput is what the agent found out with which a task has ended, as long as this coordinator keeps it; nil:
	// there was none, or it is not kept. It must not be changed.
	TaskOutput(task, agent string) *coordinator.Output

	// Explain says why a task was decided as it was, and how it would be decided
	// now; false when it is not remembered (any more).
	Explain(ctx context.Context, id string) (view.TaskExplanation, bool)
	// WhatIf says how a task would be decided now, without giving it to an agent and without keeping
	// anything of it. body is a task.assign, whose message_type, task_id and payload may be missing.
	// *BadTask when it is not valid.
	WhatIf(ctx context.Context, body []byte) (view.Prospect, error)
	// AgentStats is what BALANCING's registry and ADR-018's swarm know of the fleet.
	AgentStats(ctx context.Context) (view.AgentStats, error)
	// Capabilities is demand and supply of every capability, sorted by name.
	Capabilities(ctx context.Context) ([]view.Capability, error)

	// Quotas is what is used of the LLM quotas, as far as it was asked for: ErrNoQuotas
	// where there are none.
	Quotas(ctx context.Context, of view.QuotaSelection) (view.Quotas, error)
	// ExplainQuota says whether there is quota for something now. ErrNoQuotas likewise.
	ExplainQuota(ctx context.Context, q view.QuotaQuestion) (view.QuotaAnswer, error)

	// AskCalls has the leader's engine answer what is asked about calls that no task stands for, and gives
	// its answers in their order, once what they follow from is in the journal. gateway.ErrCallsBusy when
	// too many wait already; after any other error it may have been done, and may be asked again.
	AskCalls(ctx context.Context, calls []coordinator.Call) ([]coordinator.CallAnswer, error)

	// AskLeader is AskCalls of the one that leads: it is not forwarded, and fails on one that
	// stands by.
	AskLeader(ctx context.Context, calls []coordinator.Call) ([]coordinator.CallAnswer, error)
	// QuotaControls lists the standing changes to quotas.yaml.
	QuotaControls(ctx context.Context) (view.QuotaControls, error)
	// ControlQuota sets or boosts settings of a node, or corrects what was used, all of them or none:
	// *BadControl if the quotas would not be in order with them. Like all changes to quotas it has happened, and
	// will survive, when it returns: what waits has been served under the new quotas.
	ControlQuota(ctx context.Context, q view.QuotaChange) (view.QuotaChanged, error)
	// UncontrolQuota ends a standing change; ErrNoControl.
	UncontrolQuota(ctx context.Context, id string) (view.QuotaChanged, error)
	// RegisterQuota registers a group or agent beside those of quotas.yaml, or changes the entry
	// of one that has been; *BadControl. UnregisterQuota ends that, and all standing changes of its nodes:
	// ErrOfFile if quotas.yaml lists it, ErrNoControl if it is not registered.
	RegisterQuota(ctx context.Context, q view.QuotaEntry) (view.QuotaChanged, error)
	UnregisterQuota(ctx context.Context, agent bool, id string) (view.QuotaChanged, error)

	// ReportCapacity publishes what an agent says of its capacity to every
	// coordinator; nil when the broker has it. ErrNoAgent when the agent is not
	// known, *TooSoon when it has just reported. Any other error means that it may
	// not have been published.
	ReportCapacity(ctx context.Context, agent string, report CapacityReport) error
	// Cancel withdraws a task, whatever its state, and waits a moment for an agent
	// that has it to report what became of it. An error means that nothing was done.
	Cancel(ctx context.Context, id, reason string) (view.Cancellation, error)
	// DeadLetters lists what is in task.dead; DeadLetter gives one message, with its body if that is asked
	// for; false when it is not there. Both take the messages in hand for a moment and give them back.
	DeadLetters(ctx context.Context, filter view.DeadFilter) (view.DeadList, error)
	DeadLetter(ctx context.Context, key string, body bool) (view.DeadMessage, bool, error)
	// ResendDead publishes messages of task.dead anew and takes them out of it once the broker has confirmed
	// that; DropDead takes them out. After an error some may have been done; it may be tried again.
	ResendDead(ctx context.Context, keys []string) (view.DeadDone, error)
	DropDead(ctx context.Context, keys []string) (view.DeadDone, error)
	// Order cordons, drains or uncordons an agent and returns it as it then is;
	// ErrNoAgent when it is not known. Any other error means that nothing was done.
	Order(ctx context.Context, agent string, order coordinator.Order) (view.Agent, error)
	// AcknowledgeLoss ends that coordinators report the loss of the journal; ErrNothingLost when they
	// do not. Any other error means that it may not have been done.
	AcknowledgeLoss(ctx context.Context) error
}

// ErrOtherTask says that there is a task of this id with other content.
var ErrOtherTask = errors.New("another task with this id and different content is known")

// ErrNothingLost says that no loss of the journal is reported.
var ErrNothingLost = errors.New("no loss of the journal is reported")

// ErrNoAgent says that no agent of this id is known.
var ErrNoAgent = errors.New("no such agent")

package service

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/engine"
	"taskbus/coordinator/failpoint"
	"taskbus/coordinator/service/internal/agentqueues"
	"taskbus/coordinator/service/internal/alerts"
	"taskbus/coordinator/service/internal/background"
	"taskbus/coordinator/service/internal/coalesce"
	"taskbus/coordinator/service/internal/intake"
	"taskbus/coordinator/service/internal/journaling"
	"taskbus/coordinator/service/internal/lanes"
	"taskbus/coordinator/service/internal/outbox"
	"taskbus/coordinator/service/internal/reading"
	"taskbus/coordinator/service/internal/takeback"
	"taskbus/coordinator/service/internal/taking"
	"taskbus/coordinator/service/internal/vetting"
	"taskbus/messages"
	"taskbus/schemas"
)

// Times of a session.
const (
	depthPeriod = 5 * time.Second // between looks at the queues' depths
	// takenAfter is by when the broker has delivered what was ready when this session began to take tasks.
	takenAfter = 500 * time.Millisecond
	drainPoll  = 20 * time.Millisecond
	closeLeast = time.Second // for closing a session after a drain that took all its time
)

// session is one broker session and everything that lives and dies with it.
type session struct {
	s      *Service
	number uint64
	bus    bus.Session
	// connected is when; lost, when the session before ended: zero, there was none.
	connected, lost time.Time

	held       *intake.Deliveries
	window     *intake.Window // of task.assign
	returns    *intake.Window // of task.reassign
	outbox     *outbox.Queue[func()]
	outputs    *outbox.Outputs
	tickets    *outbox.Tickets
	notices    *outbox.Notices
	requests   *intake.Requests
	offers     *outbox.Offers
	latest     *coalesce.Latest // reports of progress
	rejections outbox.Rejections
	pulse      pulse
	vet        *vetting.Judge
	consumers  *taking.Consumers // of tasks
	takeBacks  *takeback.Consumers
	queues     *agentqueues.Queues
	lanes      *lanes.Queues
	begun      chan struct{}               // closed when it begins to take tasks
	controls   *background.Queue[struct{}] // what the quotas are is to be worked out anew

	statuses, results *intake.Fence       // where what stood in agent.status and task.result before ends
	result            messages.TaskResult // decoded into again and again; onResult's own
	pastRead          atomic.Uint64       // results
	cursor            *journaling.Cursor  // how far results have been dealt with; nil: does not lead yet
	ledger            *journaling.Ledger  // nil: there is no journal
	commits           *journaling.Commits // likewise; the loop's own

	draining atomic.Bool
	workers  sync.WaitGroup // goroutines of the session, but for the transport's
	faulted  chan error     // capacity 1: the session must end
}

// runSession opens a session, follows the leader, leads when there is none, and returns why it ended; nil
// after an orderly stop. ready reports whether it got as far as taking tasks.
//
// Every session begins with a new engine, filled from the journal: whether it is the
// first of the process, follows a fault, or another coordinator has led meanwhile.
func (s *Service) runSession(ctx context.Context) (ready bool, err error) {
	fixed := s.options.Config
	r := newSession(s)
	c := s.config.Load()
	b, err := s.options.Bus.Open(ctx, bus.SessionSpec{
		Name:      "taskbus", // the transport adds host and process
		Topology:  bus.Standard(bus.Mode(fixed.Topology), s.profile(), c.AgentQueues()),
		Window:    publishWindow(fixed.Window),
		OnSettled: r.onSettled,
		OnBlocked: r.onBlocked,
	})
	if err != nil {
		return false, fmt.Errorf("open a broker session: %w", err)
	}
	r.use(b)
	if fixed.Journal {
		r.ledger = r.newLedger()
	}
	s.current.Store(r)
	r.connected, r.lost = s.now(), s.lostAt
	closeWithin := c.ShutdownGrace
	defer func() {
		closing, cancel := context.WithTimeout(context.Background(), closeWithin)
		defer cancel()
		if closeErr := r.bus.Close(closing); err == nil {
			err = closeErr
		}
		r.workers.Wait()
		s.current.Store(nil)
		s.lostAt = s.now()
		if r.cursor != nil {
			s.resultsNext = r.cursor.Offset()
		}
		s.observe.StaleAcks(r.bus.StaleAcks())
		s.loop.end(r.number, func() {
			r.held.Close()
			s.callers.VoidAll()
			s.calls.End(r.number)
		})
	}()
	s.state.opened(s.now())
	s.observe.SessionOpened(s.options.BrokerURL, len(r.bus.Findings()))
	if err := r.follow(ctx, c); err != nil {
		return false, err
	}
	if err := r.lead(ctx); err != nil {
		return false, err
	}
	s.state.set(stateActive, "")
	var at journaling.Position
	if r.ledger != nil {
		at = r.ledger.Position()
	}
	s.observe.Leads(s.config.Load().Policy(), at.Epoch, at.Next-1)
	select {
	case <-r.bus.Done():
		return true, r.bus.Err()
	case err := <-r.faulted:
		return true, err
	case <-ctx.Done():
		begun, grace := s.now(), s.config.Load().ShutdownGrace
		r.drain(grace)
		// One grace for all: what the drain has used is not granted again.
		closeWithin = max(grace-s.now().Sub(begun), closeLeast)
		return true, nil
	}
}

// publishWindow lets every task of the window be on its way at once.
func publishWindow(window int) int { return min(max(window, 256), 4096) }

// perform carries out an effect. It runs on the loop's goroutine.
func (r *session) perform(effect coordinator.Effect) {
	r.s.observe.Effect(effect)
	switch f := effect.(type) {
	case *coordinator.Dispatch:
		r.outbox.Add(func() { r.publishDispatch(f) })
	case coordinator.Ack:
		r.acknowledge(f)
	case *coordinator.Fail:
		if f.Failure.Reason == coordinator.ReasonCancelled {
			r.requests.Fails(f.Task.ID)
		}
		r.outbox.Add(func() { r.publishFailure(f) })
	case *coordinator.Completed:
		r.s.history.Completed(f)
		r.s.callers.Completed(f.Result.Task, f.Result.Outcome)
		r.outbox.Add(func() { r.publishCompleted(f) })
	case *coordinator.Progressed:
		r.publishProgress(f)
	case *coordinator.Asked:
		r.outbox.Add(func() { r.answerAgain(f) })
	case coordinator.Duplicate:
		r.announce(schemas.TaskDuplicate, schemas.TaskDuplicate, string(f.Task.ID), f.Task.CorrelationID,
			messages.AppendTaskDuplicate(nil, &f, r.s.now()))
	case coordinator.AgentChanged:
		event := messages.AgentEvent(&f)
		r.announce(event+"."+string(f.Agent), event, string(f.Agent), "", messages.AppendAgentChanged(nil, &f, r.s.now()))
	case coordinator.GivenBack:
		r.s.history.GivenBack(&f)
	case coordinator.ResultRefused:
		r.s.history.Late(&f, r.s.now())
	case coordinator.EnsureQueue:
		r.s.queues.Add(f.Queue) // of one that has just joined, for all we know
		r.queues.Check(f)
	case *coordinator.Offer:
		r.offer(f)
	case coordinator.Award, coordinator.RejectBid, coordinator.ClaimAnswered, coordinator.ClaimsForgotten:
		r.reply(f)
	case coordinator.QuotaReached:
		r.alert(alerts.Reached(&f, r.s.now()))
	case coordinator.Withdraw:
		r.outbox.Add(func() { r.withdraw(&f) })
	case coordinator.CancelAnswered:
		r.cancelAnswered(f)
	case coordinator.OrderStands:
		r.s.callers.Answered(coordinator.CancelAnswered{Token: f.Token})
	case *coordinator.CallAnswered:
		r.s.calls.Answer(f)
	case coordinator.QuotaControlsStand:
		r.controlsStand(f)
	case coordinator.TakeBack:
		r.takeBacks.Begin(f.Agent, f.Queue)
	case coordinator.LeaveQueue:
		r.takeBacks.End(f.Agent, f.Queue)
	case coordinator.MoveToLane, coordinator.ReadLane, coordinator.DropLane:
		r.lanes.Perform(f)
	}
}

// acknowledge settles a delivery.
func (r *session) acknowledge(f coordinator.Ack) {
	how := intake.None // it has one already
	if f.Copy {
		how = intake.Dropped
	}
	if h := r.held.Take(f.Handle, how); h != nil {
		if h.Moved() {
			failpoint.Hit(failpoint.BeforeLaneAck)
		}
		r.bus.Ack(h.Message.Tag)
		failpoint.Hit(failpoint.AfterAck)
	}
}

// watchDepths keeps the depths shown in /status and /metrics fresh.
func (r *session) watchDepths() {
	ticker := time.NewTicker(depthPeriod)
	defer ticker.Stop()
	begun := r.begun
	for {
		for _, name := range reading.Watched {
			ctx, cancel := context.WithTimeout(context.Background(), depthPeriod)
			d, err := r.bus.Depth(ctx, name)
			cancel()
			if errors.Is(err, bus.ErrClosed) {
				return
			}
			r.s.depths.Set(name, d, err)
		}
		r.s.observe.AfterFloods()
		select {
		case <-r.bus.Done():
			return
		case <-ticker.C:
		case <-begun: // what was ready comes here, and would count twice
			begun = nil
			r.s.depths.Forget()
			select {
			case <-r.bus.Done():
				return
			case <-time.After(takenAfter):
			}
		}
	}
}

// mayExpire reports whether a dispatch in this queue may have an expiration: only
// where we know that the queue gives back what expires. In a plain queue it
// would be lost in silence.
func (r *session) mayExpire(queue string) bool {
	return r.s.profile() != bus.ProfileClassic && r.bus.Matches(queue)
}

// fault makes the session end.
func (r *session) fault(err error) {
	select {
	case r.faulted <- err:
	default:
	}
}

// drain stops taking tasks and waits until what was published is settled, at
// most for the grace period. Tasks that wait stay with the broker.
func (r *session) drain(grace time.Duration) {
	r.s.state.set(stateDraining, "settling what is in flight")
	r.s.log.Info().Msg("draining: no new tasks; settling what is in flight")
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	r.draining.Store(true)
	r.queues.Leave()
	r.takeBacks.LeaveAll()
	r.lanes.LeaveAll()
	r.consumers.Stop(ctx, bus.QueueAssign, bus.QueueAssignHigh, bus.QueueReassign, bus.QueueRequest)
	failpoint.Hit(failpoint.DuringDrain)
	r.post(coordinator.DrainBegan{})
	poll := time.NewTicker(drainPoll)
	defer poll.Stop()
	for {
		dispatching, settled := 0, false
		err := r.s.loop.query(ctx, func(now time.Time, e *engine.Engine) {
			dispatching = e.Dispatching()
			journalled := r.journalled(now)
			settled = dispatching == 0 && journalled && r.tickets.Count() == 0 && r.outbox.Waiting() == 0
			if rec := r.s.loop.recording; rec != nil && settled {
				rec.Stop()
				settled = !r.ledger.Owes()
			}
		})
		if err != nil {
			r.s.log.Warn().Int("dispatching", dispatching).
				Msg("the grace period is over; the broker will deliver again what is not settled")
			return
		}
		if settled {
			return
		}
		select {
		case <-poll.C:
		case <-r.bus.Done():
			return
		case <-ctx.Done():
		}
	}
}

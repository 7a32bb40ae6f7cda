package demo

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"taskbus/agent"
	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/messages"
	"taskbus/schemas"
)

// Options say what to play.
type Options struct {
	// Program is the taskbus binary to run as the coordinator.
	Program    string
	ConfigPath string
	Config     *config.Config
	TasksPath  string
	BrokerURL  string
	// BrokerName is what people may see of it.
	BrokerName string
	Bus        bus.Bus
	// Absent agents are never started.
	Absent []string
	// Topology is what the coordinator puts on the broker; it is taken away again if none of it was there before,
	// unless Keep says otherwise.
	Topology bus.Topology
	Keep     bool
	// LogPath is where the coordinator's log goes.
	LogPath string
	// Out gets the story and the tables.
	Out io.Writer
}

// Bounds of the whole.
const (
	startTimeout = 30 * time.Second
	stopGrace    = 25 * time.Second
	settleMargin = 10 * time.Second // beyond the assignment timeout
)

// ErrUnaccounted means that some task had no outcome, or more than one.
var ErrUnaccounted = errors.New("not every task is accounted for")

// Run plays the demonstration and leaves no process behind. It returns
// ErrUnaccounted when the outcomes do not match what was submitted.
func Run(ctx context.Context, o Options) (err error) {
	lines, err := readLines(o.TasksPath)
	if err != nil {
		return err
	}
	set, err := schemas.Compile()
	if err != nil {
		return fmt.Errorf("compile the embedded schemas: %w", err)
	}
	decoder := messages.NewDecoder(set, messages.DefaultLimits())
	story := newStory(o.Out)

	story.say("broker %s", o.BrokerName)
	if !o.Keep && isClear(ctx, o.Bus) {
		defer func() { err = errors.Join(err, clearAway(o, story)) }()
	}
	story.say("coordinator: %s serve --config %s (log: %s)", shortPath(o.Program), o.ConfigPath, o.LogPath)
	p, err := startCoordinator(o.Program, o.ConfigPath, o.BrokerURL, o.LogPath)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop(stopGrace)) }()
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := p.awaitReady(starting); err != nil {
		return err
	}

	accounts := newLedger()
	watcher, err := watch(starting, o.Bus, decoder, accounts, story)
	if err != nil {
		return err
	}
	defer closeSession(watcher)

	agents, working := newFleet()
	defer func() { err = errors.Join(err, agents.stop()) }()
	startAgents(working, agents, o, accounts, story)
	if err := p.awaitAgents(starting, len(agents.names)); err != nil {
		return err
	}
	story.say("%d agents online: %s", len(agents.names), strings.Join(agents.names, ", "))

	run := newRun()
	for i := range lines {
		lines[i] = run.rename(lines[i])
	}
	if err := submit(ctx, o.Bus, lines, accounts); err != nil {
		return err
	}
	story.say("%d tasks submitted to %s and %s from %s", len(lines), bus.QueueAssign, bus.QueueAssignHigh, o.TasksPath)

	limit := o.Config.Policy().Settings.AssignmentTimeout + settleMargin
	waitErr := awaitAll(ctx, accounts, limit)
	if err := summarise(ctx, o.Out, p, accounts, len(lines)); err != nil {
		return err
	}
	return waitErr
}

// isClear reports whether the broker has no queue for tasks: Taskbus is not used there.
func isClear(ctx context.Context, b bus.Bus) bool {
	session, err := b.Open(ctx, bus.SessionSpec{Name: "taskbus-demo", Topology: bus.Topology{Mode: bus.Off}})
	if err != nil {
		return false // starting the coordinator says what is wrong
	}
	defer closeSession(session)
	_, err = session.Depth(ctx, bus.QueueAssign)
	return errors.Is(err, bus.ErrNoQueue)
}

// clearAway takes away what the demonstration has left on the broker.
func clearAway(o Options, s *story) error {
	clearer, ok := o.Bus.(bus.Clearer)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
	defer cancel()
	if _, err := clearer.Clear(ctx, o.Topology); err != nil {
		return fmt.Errorf("take the demonstration's queues away: %w; `make clean-demo` tries again", err)
	}
	s.say("the broker is as it was before: the demonstration's queues are deleted")
	return nil
}

// readLines reads the tasks, one JSON message a line.
func readLines(path string) ([][]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the tasks: %w", err)
	}
	defer f.Close()
	var lines [][]byte
	scanner := bufio.NewScanner(f)
	scanner.Buffer(nil, 8<<20)
	for scanner.Scan() {
		if line := bytes.TrimSpace(scanner.Bytes()); len(line) > 0 {
			lines = append(lines, slices.Clone(line))
		}
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("read the tasks from %s: %w", path, err)
	}
	if len(lines) == 0 {
		return nil, fmt.Errorf("%s holds no task: give one task.assign message as JSON on each line", path)
	}
	return lines, nil
}

// watch listens to what the coordinator announces, on a queue of its own.
func watch(ctx context.Context, b bus.Bus, decoder *messages.Decoder, accounts *ledger, s *story) (bus.Session, error) {
	var id [6]byte
	_, _ = rand.Read(id[:]) // never fails (crypto/rand)
	queue := "taskbus.demo." + hex.EncodeToString(id[:])
	session, err := b.Open(ctx, bus.SessionSpec{
		Name: "taskbus-demo",
		Topology: bus.Topology{
			Mode:   bus.Declare,
			Queues: []bus.Queue{{Name: queue, Temporary: true}},
			Bindings: []bus.Binding{
				{Exchange: bus.ExchangeEvents, Queue: queue, Key: bus.QueueFailed + ".#"},
				{Exchange: bus.ExchangeEvents, Queue: queue, Key: schemas.TaskDuplicate},
				{Exchange: bus.ExchangeEvents, Queue: queue, Key: schemas.TaskCompleted + ".#"},
			},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("listen to %s: %w", bus.ExchangeEvents, err)
	}
	err = session.Subscribe(ctx, bus.Subscription{Queue: queue, Prefetch: 100, Handle: func(d bus.Delivery) {
		defer session.Ack(d.Tag)
		o := outcome{traceID: d.CorrelationID, at: time.Now()}
		switch d.Type {
		case schemas.TaskDuplicate:
			var m struct {
				TaskID coordinator.TaskID `json:"task_id"`
			}
			if json.Unmarshal(d.Body, &m) != nil {
				return
			}
			o.task, o.duplicate = m.TaskID, true
		case schemas.TaskCompleted:
			m, refusal := decoder.DecodeTaskCompleted(d.Body)
			if refusal != nil {
				return
			}
			o.task, o.agent, o.result, o.text = m.TaskID, m.AgentID, m.Outcome, m.Error
			o.workMS = m.DurationMS
		default:
			m, refusal := decoder.DecodeAssignmentFailed(d.Body)
			if refusal != nil {
				return
			}
			o.task, o.reason, o.text = m.TaskID, m.ReasonCode, m.Reason
		}
		if accounts.record(o) {
			s.outcome(o)
		}
	}})
	if err != nil {
		return nil, fmt.Errorf("listen to %s: %w", bus.ExchangeEvents, err)
	}
	return session, nil
}

// startAgents starts every configured agent that is not absent.
func startAgents(ctx context.Context, agents *fleet, o Options, accounts *ledger, s *story) {
	for _, spec := range o.Config.Policy().Agents {
		if slices.Contains(o.Absent, string(spec.ID)) {
			s.say("agent %s stays away, so that its work has no agent", spec.ID)
			continue
		}
		agents.start(ctx, o.Bus, spec, listener{
			began: func(id coordinator.AgentID, t *agent.Task) {
				if accounts.began(coordinator.TaskID(t.ID), id) {
					s.say("%-26s → %-14s trace %s", shown(coordinator.TaskID(t.ID)), id, t.CorrelationID)
				}
			},
			bid: func(id coordinator.AgentID, of agent.Offer, b agent.Bid) {
				if accounts.expects(coordinator.TaskID(of.TaskID)) {
					s.say("%-26s ? %-14s bids %.2f, %d in hand", shown(coordinator.TaskID(of.TaskID)), id, b.Fitness,
						of.Agent.Active)
				}
			},
		})
	}
}

func closeSession(s bus.Session) {
	ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
	defer cancel()
	_ = s.Close(ctx)
}

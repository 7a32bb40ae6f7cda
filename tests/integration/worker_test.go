package integration

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"taskbus/agent"
	"taskbus/coordinator/bus/amqpbus"
)

// The agents with the SDK are processes of their own, which can be stopped and
// killed: this test binary, started with agentEnv. What such a process does with a
// task stands in the task's payload. It says on standard output what it begins,
// and is told on standard input what to let go.

// agentEnv holds an agentSpec in JSON; RABBITMQ_URL names the broker.
const agentEnv = "TASKBUS_TEST_AGENT"

// agentSpec is the agent that a process runs.
type agentSpec struct {
	ID           string
	Slots        int
	Capabilities []string
	Interval     time.Duration // between heartbeats; 0: one second
	// Silence is the AMQP heartbeat: the broker notices within three times of it
	// that the process has stopped. 0: the SDK's.
	Silence time.Duration
	// Drain is how long its handlers may go on after SIGTERM; 0: 10 s.
	Drain time.Duration
}

// deed is what an agent does with a task.
type deed string

const (
	deedSucceed     deed = ""
	deedHold        deed = "hold"        // until it is let go, or the ctx ends
	deedHang        deed = "hang"        // until it is let go, whatever the ctx says
	deedFail        deed = "fail"        // an error
	deedRejectOnce  deed = "reject-once" // the first attempt is refused
	deedRetryOnce   deed = "retry-once"  // the first attempt is begun and given up
	deedPanic       deed = "panic"       // in the handler
	deedEndTheWorld deed = "end-process" // exit code 3
)

// begun is the line that an agent writes when it begins a task.
type begun struct {
	Agent, Task, Dispatch, Payload string // Payload is the SHA-256, in hexadecimal
	MaybeDuplicate                 bool
}

// workAs is the main function of an agent's process.
func workAs(encoded string) int {
	var spec agentSpec
	if err := json.Unmarshal([]byte(encoded), &spec); err != nil {
		fmt.Fprintln(os.Stderr, "read "+agentEnv+":", err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	h := &hands{spec: spec, gates: map[string]chan struct{}{}}
	go h.letGo(os.Stdin)
	err := agent.Run(ctx, agent.Config{
		ID: spec.ID, Slots: spec.Slots, Capabilities: spec.Capabilities,
		Interval: max(spec.Interval, time.Second), DrainTimeout: cmp.Or(spec.Drain, 10*time.Second),
		Bus: amqpbus.New(amqpbus.Config{URL: os.Getenv("RABBITMQ_URL"), Heartbeat: spec.Silence}),
		Logger: slog.New(slog.NewJSONHandler(os.Stderr,
			&slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: likeZerolog})),
	}, h.work)
	if err != nil {
		fmt.Fprintln(os.Stderr, "run the agent:", err)
		return 1
	}
	return 0
}

// likeZerolog gives a log line the keys that logBook reads.
func likeZerolog(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.MessageKey {
		a.Key = "message"
	}
	return a
}

// hands do the work of an agent's process.
type hands struct {
	spec agentSpec

	mu    sync.Mutex
	gates map[string]chan struct{} // by task; closed: it may end
}

// letGo reads task ids, one a line.
func (h *hands) letGo(from io.Reader) {
	for lines := bufio.NewScanner(from); lines.Scan(); {
		close(h.gate(lines.Text()))
	}
}

func (h *hands) gate(task string) chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	g := h.gates[task]
	if g == nil {
		g = make(chan struct{})
		h.gates[task] = g
	}
	return g
}

// work is the handler.
func (h *hands) work(ctx context.Context, t *agent.Task) (agent.Result, error) {
	var order struct {
		Do deed `json:"do"`
	}
	if err := json.Unmarshal(t.Payload, &order); err != nil {
		return agent.Result{}, fmt.Errorf("read the payload: %w", err)
	}
	h.tell(t)
	switch order.Do {
	case deedSucceed:
		return agent.Result{}, nil
	case deedHold:
		select {
		case <-h.gate(t.ID):
			return agent.Result{}, nil
		case <-ctx.Done():
			return agent.Result{}, ctx.Err()
		}
	case deedHang:
		<-h.gate(t.ID)
		return agent.Result{}, errors.New("let go at last")
	case deedFail:
		return agent.Result{}, errors.New("this cannot be done")
	case deedRejectOnce:
		if t.Attempt == 1 {
			return agent.Result{}, agent.Reject("not for me")
		}
		return agent.Result{}, nil
	case deedRetryOnce:
		if t.Attempt == 1 {
			return agent.Result{}, agent.Retry(errors.New("broke half-way"))
		}
		return agent.Result{}, nil
	case deedPanic:
		panic("a poisoned task")
	case deedEndTheWorld:
		os.Exit(3)
	}
	return agent.Result{}, fmt.Errorf("there is no deed %q", order.Do)
}

// tell writes down what is begun, in one write: the process may be gone after it.
func (h *hands) tell(t *agent.Task) {
	sum := sha256.Sum256(t.Payload)
	line, err := json.Marshal(begun{
		Agent: h.spec.ID, Task: t.ID, Dispatch: t.DispatchID,
		Payload: hex.EncodeToString(sum[:]), MaybeDuplicate: t.MaybeDuplicate,
	})
	if err == nil {
		_, err = os.Stdout.Write(append(line, '\n'))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tell what is begun:", err)
	}
}

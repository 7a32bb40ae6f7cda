//go:build unix

package agent_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"taskbus/agent"
	"taskbus/coordinator/bus"
	"taskbus/messages"
)

// childVariable makes the test binary an agent that has work for a day.
const childVariable = "TASKBUS_TEST_AGENT_AT_WORK"

// atWork is what that agent prints when its handler has begun.
const atWork = "at work"

// The first signal has an agent finish what it runs; a second one ends it.
func TestSecondSignalEndsTheProcess(t *testing.T) {
	if os.Getenv(childVariable) != "" {
		workForADay(t)
		return
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestSecondSignalEndsTheProcess$")
	child.Env = append(os.Environ(), childVariable+"=1")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	await := func(text string) {
		for lines.Scan() {
			if strings.Contains(lines.Text(), text) {
				return
			}
		}
		t.Errorf("the agent never said %q", text)
	}
	await(atWork)
	interrupt := func() { _ = child.Process.Signal(os.Interrupt) } // it may have ended
	interrupt()
	await("the agent is stopping")
	// By now, or in a moment, the signals are given back: one of these is the second.
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for err = nil; err == nil; {
		select {
		case <-again.C:
			interrupt()
		case err = <-ended:
			if err == nil {
				t.Fatal("the agent ended in order, although its handler has a day's work")
			}
		}
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGINT {
		t.Errorf("the agent ended with %v, want by the second interrupt", err)
	}
}

// workForADay runs an agent as the examples do, whose handler ignores its ctx.
func workForADay(t *testing.T) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	r := newRig(t, "agent.a1")
	d := dispatch("t")
	if err := r.outside.Publish(bus.Publication{
		Key: d.Queue, Properties: bus.Properties{MessageID: d.DispatchID},
		Body: messages.AppendDispatch(nil, d, []byte(`{}`)),
	}); err != nil {
		t.Fatal(err)
	}
	c := r.config()
	c.Logger, c.DrainTimeout = slog.New(slog.NewTextHandler(os.Stdout, nil)), 24*time.Hour
	err := agent.Run(ctx, c, func(context.Context, *agent.Task) (agent.Result, error) {
		fmt.Println(atWork)
		time.Sleep(24 * time.Hour)
		return agent.Result{}, nil
	})
	t.Errorf("Run has returned: %v", err)
}

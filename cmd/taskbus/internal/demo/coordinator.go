package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"taskbus/coordinator/view"
)

// process is a coordinator in a process of its own: `taskbus serve`.
type process struct {
	command *exec.Cmd
	log     *os.File
	base    string // of its HTTP interface
	exited  chan error
}

// startCoordinator runs `taskbus serve` from the given program with its log in a
// file. The broker's URL goes to it through the environment, never the command
// line.
func startCoordinator(program, configPath, brokerURL, logPath string) (*process, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(logPath)
	if err != nil {
		return nil, fmt.Errorf("create the coordinator's log: %w", err)
	}
	c := exec.Command(program, "serve", "--config", configPath)
	c.Env = append(os.Environ(), "RABBITMQ_URL="+brokerURL, "RABBITMQ_URL_FILE=",
		"COORDINATOR_PORT="+strconv.Itoa(port))
	c.Stdout, c.Stderr = log, log
	// Ctrl-C is for the demo, which stops its coordinator in order.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	endWithParent(c.SysProcAttr)
	p := &process{command: c, log: log, base: "http://127.0.0.1:" + strconv.Itoa(port), exited: make(chan error, 1)}
	started := make(chan error)
	go func() {
		// The child ends with the thread that started it: keep that for ourselves.
		runtime.LockOSThread()
		err := c.Start()
		started <- err
		if err == nil {
			p.exited <- c.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s serve: %w", program, err)
	}
	return p, nil
}

// freePort finds a port that was free a moment ago.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// get reads a JSON answer of the coordinator, whatever its status.
func (p *process) get(ctx context.Context, path string, v any) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+path, nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, json.Unmarshal(body, v)
}

// await polls until the condition holds, the coordinator exits, or ctx ends.
func (p *process) await(ctx context.Context, what string, condition func() bool) error {
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for !condition() {
		select {
		case err := <-p.exited:
			p.exited <- err
			return fmt.Errorf("the coordinator ended before %s (%v); its log is in %s", what, err, p.log.Name())
		case <-ctx.Done():
			return fmt.Errorf("waited in vain until %s; the coordinator's log is in %s", what, p.log.Name())
		case <-poll.C:
		}
	}
	return nil
}

// awaitReady waits until the coordinator takes tasks. One that stands by never will: another coordinator
// leads on this broker.
func (p *process) awaitReady(ctx context.Context) error {
	standby := false
	err := p.await(ctx, "it took tasks", func() bool {
		var r view.Readiness
		status, err := p.get(ctx, "/readyz", &r)
		standby = err == nil && r.State == "standby"
		return standby || err == nil && status == http.StatusOK
	})
	if err == nil && standby {
		return errors.New(
			"another coordinator leads on this broker: stop it, or point RABBITMQ_URL to another broker or " +
				"virtual host")
	}
	return err
}

// awaitAgents waits until so many agents are online.
func (p *process) awaitAgents(ctx context.Context, n int) error {
	return p.await(ctx, fmt.Sprintf("%d agents were online", n), func() bool {
		var st view.Status
		if _, err := p.get(ctx, "/status", &st); err != nil {
			return false
		}
		online := 0
		for _, a := range st.Agents {
			if a.Online() {
				online++
			}
		}
		return online >= n
	})
}

// task asks what the coordinator remembers of a task.
func (p *process) task(ctx context.Context, id string) (view.Task, bool) {
	var t view.Task
	status, err := p.get(ctx, "/tasks/"+url.PathEscape(id), &t)
	return t, err == nil && status == http.StatusOK
}

// stop ends the coordinator in order and reports an exit code other than 0.
func (p *process) stop(grace time.Duration) error {
	defer p.log.Close()
	_ = p.command.Process.Signal(syscall.SIGTERM) // it may have ended already
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case err := <-p.exited:
		if err != nil {
			return fmt.Errorf("the coordinator did not stop in order (%w); its log is in %s", err, p.log.Name())
		}
		return nil
	case <-timer.C:
		_ = p.command.Process.Kill()
		<-p.exited
		return fmt.Errorf("the coordinator did not stop within %s and was killed; its log is in %s", grace,
			p.log.Name())
	}
}

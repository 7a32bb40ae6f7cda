package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	clockTick   = 10 * time.Millisecond // of /proc/PID/stat: the same on every Linux that Go runs on (USER_HZ = 100)
	stopTimeout = 40 * time.Second      // until a process has ended in order
)

// process is a program under test, or one beside it whose CPU or end must be its own.
type process struct {
	name, log string // log is the path of what it writes to standard error
	cmd       *exec.Cmd
	stdin     io.WriteCloser
	lines     chan string // the beginning of its standard output
	exited    chan struct{}
	err       error // how it ended; valid after exited
}

// startProcess runs a program with more in its environment.
func startProcess(name, log string, env []string, program string, args ...string) (*process, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // the process has its own copy
	cmd := exec.Command(program, args...)
	cmd.Env, cmd.Stderr = append(os.Environ(), env...), file
	stdin, errIn := cmd.StdinPipe()
	stdout, errOut := cmd.StdoutPipe()
	if err := errors.Join(errIn, errOut); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &process{name: name, log: log, cmd: cmd, stdin: stdin}
	p.lines, p.exited = make(chan string, 16), make(chan struct{})
	go func() {
		for s := bufio.NewScanner(stdout); s.Scan(); {
			select {
			case p.lines <- s.Text():
			default: // more than is read must not hold up the end
			}
		}
		p.err = cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// alive is nil while the process runs.
func (p *process) alive() error {
	select {
	case <-p.exited:
		return fmt.Errorf("%s has ended (%v); see %s", p.name, p.err, p.log)
	default:
		return nil
	}
}

// freeze stops the process where it is, with its connections open.
func (p *process) freeze() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for range 100 {
		if state, _, err := p.stat(); err != nil || state == "T" {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("%s does not stop at SIGSTOP", p.name)
}

func (p *process) thaw() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// kill ends the process with SIGKILL.
func (p *process) kill() error {
	err := p.cmd.Process.Kill()
	<-p.exited
	return err
}

// stop ends the process in order. It is an error if it has ended before, ends badly, or takes too long.
func (p *process) stop() error {
	// A frozen process does not get the signal.
	if err := errors.Join(p.alive(), p.thaw(), p.cmd.Process.Signal(syscall.SIGTERM)); err != nil {
		return err
	}
	select {
	case <-p.exited:
	case <-time.After(stopTimeout):
		return errors.Join(fmt.Errorf("%s did not end within %s; see %s", p.name, stopTimeout, p.log), p.kill())
	}
	if p.err != nil {
		return fmt.Errorf("%s ended badly: %w; see %s", p.name, p.err, p.log)
	}
	return nil
}

// stat is the state of the process and the CPU time of its threads.
func (p *process) stat() (state string, cpu time.Duration, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return "", 0, fmt.Errorf("read the CPU time of %s (Linux only): %w", p.name, err)
	}
	return parseStat(string(data))
}

// parseStat follows proc(5): after the name in parentheses, which may hold anything, come the state (field 3) and, as
// fields 14 and 15, utime and stime.
func parseStat(line string) (state string, cpu time.Duration, err error) {
	fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	const first, utime, stime = 3, 14, 15
	if len(fields) <= stime-first {
		return "", 0, fmt.Errorf("/proc/PID/stat has %d fields after the name", len(fields))
	}
	user, errUser := strconv.Atoi(fields[utime-first])
	system, errSystem := strconv.Atoi(fields[stime-first])
	return fields[0], time.Duration(user+system) * clockTick, errors.Join(errUser, errSystem)
}

func (p *process) cpu() time.Duration {
	_, cpu, err := p.stat()
	check(err)
	return cpu
}

// memory is how much of the process is resident, now and at its highest; MiB.
func (p *process) memory() (now, peak float64, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, 0, fmt.Errorf("read the memory of %s (Linux only): %w", p.name, err)
	}
	return parseMemory(string(data))
}

func parseMemory(status string) (now, peak float64, err error) {
	for line := range strings.Lines(status) {
		var name string
		var kib float64
		switch _, err := fmt.Sscanf(line, "%s %f kB", &name, &kib); {
		case err != nil:
		case name == "VmRSS:":
			now = kib / 1024
		case name == "VmHWM:":
			peak = kib / 1024
		}
	}
	if now == 0 || peak == 0 {
		return 0, 0, errors.New("/proc/PID/status has no VmRSS or VmHWM")
	}
	return now, peak, nil
}

// roleEnv names the role that this test binary plays as a process of its own.
const roleEnv = "TASKBUS_BENCH_ROLE"

// roles are those processes. Each prints "ready" and runs until ctx ends.
var roles = map[string]func(ctx context.Context, url, arg string){
	"relay": relay, "victim": victim, "echo": httpEcho, "grpc-echo": grpcEcho, "redis": httpRedis,
}

// playRole runs the role with the argument until SIGTERM, or the end of the process that has started it.
func playRole(ctx context.Context, role string) {
	name, arg, _ := strings.Cut(role, " ")
	roles[name](ctx, os.Getenv("RABBITMQ_URL"), arg)
}

func sayReady() { fmt.Println("ready") }

// withInput is ctx until standard input ends; lines of it go to said.
func withInput(ctx context.Context, said func(string)) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		for s := bufio.NewScanner(os.Stdin); s.Scan(); {
			said(s.Text())
		}
	}()
	return ctx
}

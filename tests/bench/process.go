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

// process is a program that we run: the one under test, or a generator.
type process struct {
	name   string
	log    string // path of what it writes to standard error
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	lines  chan string // the beginning of its standard output
	exited chan struct{}
	err    error // how it ended; valid after exited
}

// startProcess runs the program until stop; the end of ctx is a SIGTERM. env is
// added to our own.
func startProcess(ctx context.Context, name, log string, env []string, program string, args ...string) (*process, error) {
	file, err := os.Create(log)
	if err != nil {
		return nil, fmt.Errorf("create the log of %s: %w", name, err)
	}
	defer func() { _ = file.Close() }() // the process has its own copy
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = file
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTimeout
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &process{name: name, log: log, cmd: cmd, stdin: stdin, lines: make(chan string, 16), exited: make(chan struct{})}
	go func() {
		for s := bufio.NewScanner(stdout); s.Scan(); {
			select {
			case p.lines <- s.Text():
			default: // nobody expects so much, and it must not hold up the end
			}
		}
		p.err = cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// startSelf runs this program again in another role.
func startSelf(ctx context.Context, name, log string, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	return startProcess(ctx, name, log, nil, self, args...)
}

// startRole is startSelf for a role that says "ready" when it is.
func (b *bench) startRole(ctx context.Context, role string, args ...string) (*process, error) {
	name := strings.Join(append([]string{role}, args...), "-")
	p, err := startSelf(ctx, name, b.logPath(name), append([]string{role}, args...)...)
	if err != nil {
		return nil, err
	}
	if err := p.expect("ready", 15*time.Second); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

// expect waits for a line on standard output.
func (p *process) expect(line string, timeout time.Duration) error {
	select {
	case got := <-p.lines:
		if got != line {
			return fmt.Errorf("%s said %q instead of %q", p.name, got, line)
		}
		return nil
	case <-p.exited:
		return fmt.Errorf("%s ended: %w; see %s", p.name, p.ending(), p.log)
	case <-time.After(timeout):
		return fmt.Errorf("%s did not say %q within %s; see %s", p.name, line, timeout, p.log)
	}
}

// ending is how the process ended; it must have.
func (p *process) ending() error {
	if p.err == nil {
		return errors.New("with exit code 0")
	}
	return p.err
}

// alive is nil while the process runs.
func (p *process) alive() error {
	select {
	case <-p.exited:
		return fmt.Errorf("%s ended: %w; see %s", p.name, p.ending(), p.log)
	default:
		return nil
	}
}

// freeze stops the process where it is, with its connections open.
func (p *process) freeze() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stop %s for a moment: %w", p.name, err)
	}
	for range 100 {
		stat, err := p.stat()
		if err != nil {
			return err
		}
		if stat.state == "T" {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("%s does not heed SIGSTOP", p.name)
}

// thaw lets a frozen process go on.
func (p *process) thaw() error {
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		return fmt.Errorf("let %s go on: %w", p.name, err)
	}
	return nil
}

// kill ends the process without a word. It must run.
func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	<-p.exited
	return nil
}

// stopTimeout is how long a process may take to end in order.
const stopTimeout = 40 * time.Second

// stop ends the process in order. It is an error if that takes too long, or if
// the process had ended before or ends badly.
func (p *process) stop() error {
	if err := p.alive(); err != nil {
		return err
	}
	// A frozen process hears nothing.
	if err := errors.Join(p.thaw(), p.cmd.Process.Signal(syscall.SIGTERM)); err != nil {
		return fmt.Errorf("end %s: %w", p.name, err)
	}
	select {
	case <-p.exited:
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Kill() // it may be ending at this moment
		<-p.exited
		return fmt.Errorf("%s did not end within %s; see %s", p.name, stopTimeout, p.log)
	}
	if p.err != nil {
		return fmt.Errorf("%s ended badly: %w; see %s", p.name, p.err, p.log)
	}
	return nil
}

// procStat is what we read of /proc/PID/stat.
type procStat struct {
	state string
	cpu   time.Duration // user and system time of all threads
}

// clockTick is the unit of /proc/PID/stat, the same on every Linux that Go runs
// on (USER_HZ = 100).
const clockTick = 10 * time.Millisecond

func (p *process) stat() (procStat, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return procStat{}, fmt.Errorf("read the CPU time of %s (Linux only): %w", p.name, err)
	}
	return parseStat(string(data))
}

// cpuPer is the CPU time since before, in microseconds for each of n tasks.
func (p *process) cpuPer(n int, before procStat) (float64, error) {
	after, err := p.stat()
	return float64((after.cpu - before.cpu).Microseconds()) / float64(n), err
}

// parseStat follows proc(5): after the name in parentheses, which may hold
// anything, come the state (field 3) and, as fields 14 and 15, utime and stime.
func parseStat(line string) (procStat, error) {
	rest := line[strings.LastIndexByte(line, ')')+1:]
	fields := strings.Fields(rest)
	const first, utime, stime = 3, 14, 15
	if len(fields) <= stime-first {
		return procStat{}, fmt.Errorf("/proc/PID/stat has %d fields after the name, expected more than %d", len(fields), stime-first)
	}
	user, errUser := strconv.ParseInt(fields[utime-first], 10, 64)
	system, errSystem := strconv.ParseInt(fields[stime-first], 10, 64)
	if err := errors.Join(errUser, errSystem); err != nil {
		return procStat{}, fmt.Errorf("/proc/PID/stat: %w", err)
	}
	return procStat{state: fields[0], cpu: time.Duration(user+system) * clockTick}, nil
}

// memory is how much of the process is resident, now and at its highest; bytes.
func (p *process) memory() (now, peak int64, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, 0, fmt.Errorf("read the memory of %s (Linux only): %w", p.name, err)
	}
	return parseMemory(string(data))
}

func parseMemory(status string) (now, peak int64, err error) {
	sizes := make(map[string]int64)
	for line := range strings.Lines(status) {
		var name string
		var kib int64
		if n, _ := fmt.Sscanf(line, "%s %d kB", &name, &kib); n == 2 {
			sizes[name] = kib << 10
		}
	}
	now, peak = sizes["VmRSS:"], sizes["VmHWM:"]
	if now == 0 || peak == 0 {
		return 0, 0, errors.New("/proc/PID/status has no VmRSS or VmHWM")
	}
	return now, peak, nil
}

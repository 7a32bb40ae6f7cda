package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

const stopTimeout = 40 * time.Second // until a process has ended in order

// process is a program under test, or one beside it whose CPU must be its own. It ends with this program.
type process struct {
	name, log string // log is the path of what it writes
	cmd       *exec.Cmd
	proc      procfs.Proc
	exited    chan struct{}
	err       error // how it ended; valid after exited
}

// startProcess runs a program with more in its environment.
func startProcess(name, log string, env []string, program string, args ...string) *process {
	file := must(os.Create(log))
	defer func() { _ = file.Close() }() // the process has its own copy
	cmd := exec.Command(program, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), env...), file, file
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	check(cmd.Start(), "start "+name)
	p := &process{name: name, log: log, cmd: cmd, exited: make(chan struct{})}
	p.proc = must(procfs.NewProc(cmd.Process.Pid)) // Linux only
	go func() {
		p.err = cmd.Wait()
		close(p.exited)
	}()
	return p
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
func (p *process) freeze() {
	check(p.cmd.Process.Signal(syscall.SIGSTOP))
	for range 100 {
		if must(p.proc.Stat()).State == "T" {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	panic(fmt.Errorf("%s does not stop at SIGSTOP", p.name))
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

func (p *process) cpu() time.Duration {
	return time.Duration(must(p.proc.Stat()).CPUTime() * float64(time.Second))
}

// memory is how much of the process is resident, now and at its highest; MiB.
func (p *process) memory() (now, peak float64) {
	s := must(p.proc.NewStatus())
	return float64(s.VmRSS) / (1 << 20), float64(s.VmHWM) / (1 << 20)
}

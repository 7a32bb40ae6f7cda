//go:build failpoint

package failpoint

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// victim is set in the process that is to die: this test binary, run again.
const victim = "TASKBUS_FAILPOINT_VICTIM"

func TestMain(m *testing.M) {
	if os.Getenv(victim) != "" {
		os.Exit(live())
	}
	os.Exit(m.Run())
}

// live passes every point three times, and handles two tasks.
func live() (code int) {
	for range 3 {
		for _, p := range Points() {
			fmt.Println(p)
			Hit(p)
		}
	}
	defer func() {
		if recovered := recover(); recovered != nil {
			fmt.Println("recovered:", recovered)
			code = 7
		}
	}()
	for _, id := range []string{"t-1", "t-2"} {
		fmt.Println(id)
		Task(id)
	}
	return 0
}

func TestArmedByTheEnvironment(t *testing.T) {
	all := len(Points())
	for _, tt := range []struct {
		armed string
		// lines that are written on standard output before the end
		lines  int
		killed bool
		code   int
		stderr string
	}{
		{armed: "", lines: 3*all + 2},
		{armed: "after_deliver", lines: 1, killed: true, stderr: "failpoint after_deliver: hit 1, SIGKILL\n"},
		{armed: "after_validate:1", lines: 2, killed: true, stderr: "failpoint after_validate: hit 1, SIGKILL\n"},
		// Twice all points, and the second of the third round.
		{armed: "after_validate:3", lines: 2*all + 2, killed: true, stderr: "failpoint after_validate: hit 3, SIGKILL\n"},
		{armed: "after_validate:4", lines: 3*all + 2}, // hit three times only
		{armed: "during_reload:2", lines: 2 * all, killed: true, stderr: "failpoint during_reload: hit 2, SIGKILL\n"},
		// Both tasks, and the line of the recovered panic.
		{armed: "panic:t-2", lines: 3*all + 3, code: 7, stderr: "failpoint panic: task t-2\n"},
		{armed: "panic:t-9", lines: 3*all + 2},
		// What is misspelt ends the process at the first point.
		{armed: "after_delivery", lines: 1, code: 2, stderr: `there is no failpoint "after_delivery"`},
		{armed: "after_deliver:0", lines: 1, code: 2, stderr: "must be 1 or more"},
		{armed: "after_deliver:x", lines: 1, code: 2, stderr: "must be 1 or more"},
		{armed: "panic:", lines: 1, code: 2, stderr: "names no task"},
	} {
		t.Run(tt.armed, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), victim+"=yes", Environment+"="+tt.armed)
			var stdout, stderr strings.Builder
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			err := cmd.Run()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			status := cmd.ProcessState.Sys().(syscall.WaitStatus)
			if killed := status.Signaled() && status.Signal() == syscall.SIGKILL; killed != tt.killed {
				t.Errorf("killed %t, want %t", killed, tt.killed)
			}
			if !tt.killed && status.ExitStatus() != tt.code {
				t.Errorf("exit code %d, want %d", status.ExitStatus(), tt.code)
			}
			if n := strings.Count(stdout.String(), "\n"); n != tt.lines {
				t.Errorf("it got %d lines far, want %d:\n%s", n, tt.lines, stdout.String())
			}
			if !strings.Contains(stderr.String(), tt.stderr) || tt.stderr == "" && stderr.String() != "" {
				t.Errorf("on standard error: %q, want %q", stderr.String(), tt.stderr)
			}
		})
	}
}

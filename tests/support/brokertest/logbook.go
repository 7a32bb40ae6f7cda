package brokertest

import (
	"bytes"
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"sync"
)

// LogBook keeps what a process writes. Its zero value is empty; it is safe for
// concurrent use.
type LogBook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements [io.Writer]; it never fails.
func (b *LogBook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String is everything written so far.
func (b *LogBook) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Has tells whether the text has been written.
func (b *LogBook) Has(text string) bool { return strings.Contains(b.String(), text) }

// Field is that of the first log line with the message; empty while there is none.
func (b *LogBook) Field(message, name string) string {
	for line := range strings.Lines(b.String()) {
		var e map[string]any
		if strings.HasSuffix(line, "\n") && strings.Contains(line, message) && json.Unmarshal([]byte(line), &e) == nil &&
			e["message"] == message {
			text, _ := e[name].(string)
			return text
		}
	}
	return ""
}

// Tail is the last lines without those about single tasks, which would fill it.
func (b *LogBook) Tail(lines int) string {
	var all []string
	for line := range strings.Lines(b.String()) {
		if !strings.Contains(line, `"task_id":"`) {
			all = append(all, line)
		}
	}
	return strings.Join(all[max(0, len(all)-lines):], "")
}

// ExitCode is that of a process that [exec.Cmd.Wait] says has ended so; -2 when it was not
// even begun.
func ExitCode(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	default:
		return -2
	}
}

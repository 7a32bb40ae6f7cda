package brokertest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// logged prints, when the test has failed, what the node has logged as errors since the call: at most
// maxLogged lines of it. Other tests on the same node may be meant. A channel that the broker itself ends
// tells its client no more than "541 INTERNAL_ERROR".
func (b Broker) logged(t testing.TB) {
	begun := map[string]int64{}
	for _, file := range b.logs() {
		if info, err := os.Stat(file); err == nil {
			begun[file] = info.Size()
		}
	}
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, file := range b.logs() {
			if lines := errorsIn(file, begun[file]); len(lines) > 0 {
				t.Logf("the node's errors meanwhile, by %s:\n%s", filepath.Base(file), strings.Join(lines, "\n"))
			}
		}
	})
}

func (b Broker) logs() []string {
	files, err := filepath.Glob(filepath.Join(b.dir, "log", "*@localhost.log"))
	if err != nil {
		panic(err) // the pattern is a constant
	}
	return files
}

const maxLogged = 80

// errorsIn are the last lines of the entries of level error in the file, from that byte on.
func errorsIn(file string, from int64) (lines []string) {
	text, err := os.ReadFile(file)
	if err != nil || int64(len(text)) < from {
		return nil // the node has been removed, or begun anew
	}
	for line := range strings.Lines(string(text[from:])) {
		if strings.Contains(line, " [error] ") {
			lines = append(lines, strings.TrimRight(line, "\n"))
		}
	}
	return lines[max(len(lines)-maxLogged, 0):]
}

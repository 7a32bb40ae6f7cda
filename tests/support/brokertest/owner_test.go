package brokertest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// A node whose owner ends while it starts, and with the owner the reader of what the start says, as when a
// test is interrupted, is stopped.
func TestNodeEndsWithItsOwner(t *testing.T) {
	t.Parallel()
	Needs(t, "a broker")
	dir := filepath.Join(t.TempDir(), "broker")
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	owner := exec.Command("sleep", "300")
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	start := exec.Command(filepath.Join(ModuleRoot(t), "scripts", "broker.sh"), "start", "--dir", dir, "--until-gone",
		strconv.Itoa(owner.Process.Pid))
	start.Stderr = writer
	if err := start.Start(); err != nil {
		t.Fatal(err)
	}
	// Its first words: the ports have been chosen, and the VM is next.
	if _, err := reader.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	_, _, _ = reader.Close(), writer.Close(), owner.Process.Kill()
	_ = owner.Wait() // killed
	if err := start.Wait(); err == nil {
		t.Error("the start went on without a reader: this test shows nothing")
	}
	// epmd is the last to be stopped: then the directory may be deleted.
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	seen := false
	for end := time.Now().Add(nodeTimeout); !seen || exists("pid") ||
		exists("epmd.pid"); time.Sleep(100 * time.Millisecond) {
		seen = seen || exists("pid")
		if time.Now().After(end) {
			script(t, dir, "stop")
			t.Fatalf("the node goes on (its pid file was seen: %t)", seen)
		}
	}
}

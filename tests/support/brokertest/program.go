package brokertest

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Main runs the tests of a package, so many side by side (see SideBySide), after it has built taskbus for all of them,
// with more arguments of `go build`; *program says where that is, while tests run, where there are servers. It returns
// the exit code.
func Main(m *testing.M, atOnce int, program *string, args ...string) int {
	SideBySide(atOnce)
	dir, err := os.MkdirTemp("", "taskbus-tests-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "make a directory for the program:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	if !HasServers() {
		return m.Run() // nothing starts the program
	}
	if *program, err = Program(dir, args...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// Program builds taskbus of the source as it is now, with more arguments of `go build`
// (e.g. "-race"), and links it into dir; it gives its path. All packages, and one run after
// the other, build into the same place: go build looks itself whether what is there is what
// it would make, and need not link it again then.
func Program(dir string, args ...string) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	name := "taskbus" + strings.Join(args, "")
	built := filepath.Join(root, ".run", "programs", name)
	if err := os.MkdirAll(filepath.Dir(built), 0o755); err != nil {
		return "", fmt.Errorf("make a place for the program: %w", err)
	}
	lock, err := os.Create(built + ".lock")
	if err != nil {
		return "", fmt.Errorf("lock the program: %w", err)
	}
	defer lock.Close() // and let go of
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock the program: %w", err)
	}
	all := append(append([]string{"build", "-o", built}, args...), "taskbus/cmd/taskbus")
	if out, err := exec.Command("go", all...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, out)
	}
	// The next build may be of another source while these tests run.
	path := filepath.Join(dir, name)
	if err := os.Link(built, path); err == nil {
		return path, nil
	}
	program, err := os.ReadFile(built) // dir is on another file system
	if err != nil {
		return "", fmt.Errorf("copy the program: %w", err)
	}
	if err := os.WriteFile(path, program, 0o755); err != nil {
		return "", fmt.Errorf("copy the program: %w", err)
	}
	return path, nil
}

// DependOnProgram opens the folders of all that the program is made of. `go test` would
// otherwise give an earlier result for another program, because nothing in a test imports
// it: what a test opens counts, with the sizes and times of the files in it.
func DependOnProgram(t testing.TB) {
	t.Helper()
	root := ModuleRoot(t)
	for _, top := range []string{"cmd", "config", "coordinator", "messages", "schemas", "scripts"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(_ string, _ fs.DirEntry, err error) error { return err })
		if err != nil {
			t.Fatalf("look at the sources of the program: %v", err)
		}
	}
	if _, err := os.Stat(filepath.Join(root, "go.sum")); err != nil {
		t.Fatalf("look at the sources of the program: %v", err)
	}
}

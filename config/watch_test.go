package config

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience bounds how long a test waits for something that must happen; it is
// never waited out when it does.
const patience = 20 * time.Second

// follower runs a watch and hands over what onChange found in the file, "" when
// the file could not be read.
type follower struct {
	t     *testing.T
	found chan string
}

// follow starts watching and returns when the watch stands.
func follow(t *testing.T, path string, look time.Duration) *follower {
	t.Helper()
	t.Cleanup(func() { goleak.VerifyNone(t) })
	f := &follower{t, make(chan string, 100)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- watch(ctx, path, func() {
			data, err := os.ReadFile(path)
			if err != nil {
				data = nil
			}
			f.found <- string(data)
		}, look)
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("watch: %v", err)
		}
	})
	f.next() // the call that says the watch stands
	return f
}

// next waits for one call of onChange.
func (f *follower) next() string {
	f.t.Helper()
	select {
	case text := <-f.found:
		return text
	case <-time.After(patience):
		f.t.Fatal("onChange was not called")
		return ""
	}
}

// expect waits for one call and wants it to have found the text. Because a call
// too many would be found by the next expect, tests end with one.
func (f *follower) expect(want string) {
	f.t.Helper()
	if got := f.next(); got != want {
		f.t.Fatalf("onChange found %q, want %q", got, want)
	}
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestWatchWrittenInPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agents.yaml")
	put(t, path, "one")
	f := follow(t, path, time.Hour)
	put(t, path, "two")
	f.expect("two")
	put(t, path, "six") // as long as before
	f.expect("six")
}

func TestWatchRenamedOver(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "agents.yaml")
	put(t, path, "one")
	f := follow(t, path, time.Hour)
	for _, text := range []string{"two", "three"} {
		put(t, filepath.Join(dir, ".agents.yaml.swp"), text)
		must(t, os.Rename(filepath.Join(dir, ".agents.yaml.swp"), path))
		f.expect(text)
	}
}

func TestWatchHalfWrittenThenTheRest(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agents.yaml")
	put(t, path, "one")
	f := follow(t, path, time.Hour)
	file, err := os.Create(path)
	must(t, err)
	write := func(text string) {
		t.Helper()
		_, err := file.WriteString(text)
		must(t, err)
		must(t, file.Sync())
	}
	// At one go, as an editor does: the half is not seen.
	write("agents:\n")
	write("  gpu-1: {}\n")
	f.expect("agents:\n  gpu-1: {}\n")
	// With a long pause the half is seen, and then the whole.
	write("  gpu-2: {max_conc")
	f.expect("agents:\n  gpu-1: {}\n  gpu-2: {max_conc")
	write("urrent_tasks: 1}\n")
	f.expect("agents:\n  gpu-1: {}\n  gpu-2: {max_concurrent_tasks: 1}\n")
	must(t, file.Close())
}

func TestWatchDeletedAndCreatedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agents.yaml")
	put(t, path, "one")
	f := follow(t, path, time.Hour)
	must(t, os.Remove(path))
	f.expect("") // it is gone: the owner can say so
	put(t, path, "two")
	f.expect("two")
	// At one go it is a change like any other.
	must(t, os.Remove(path))
	put(t, path, "three")
	f.expect("three")
}

func TestWatchFileThatComesLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agents.yaml")
	f := follow(t, path, time.Hour)
	put(t, path, "one")
	f.expect("one")
}

// Kubernetes mounts agents.yaml → ..data/agents.yaml, ..data → ..<time>, and
// swaps ..data; nothing happens to agents.yaml itself.
func TestWatchKubernetesSwap(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "agents.yaml")
	mount := func(stamp, text string) {
		t.Helper()
		must(t, os.Mkdir(filepath.Join(dir, stamp), 0o700))
		put(t, filepath.Join(dir, stamp, "agents.yaml"), text)
		must(t, os.Symlink(stamp, filepath.Join(dir, "..data_tmp")))
		must(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	}
	mount("..1", "one")
	must(t, os.Symlink("..data/agents.yaml", path))
	f := follow(t, path, time.Hour)
	mount("..2", "two")
	must(t, os.RemoveAll(filepath.Join(dir, "..1")))
	f.expect("two")
	mount("..3", "three")
	f.expect("three")
}

// A link into another directory: what happens there counts too, also after the
// link has been turned to a third place.
func TestWatchLinkElsewhere(t *testing.T) {
	dir, here, there := t.TempDir(), t.TempDir(), t.TempDir()
	path := filepath.Join(dir, "agents.yaml")
	put(t, filepath.Join(here, "fleet.yaml"), "one")
	put(t, filepath.Join(there, "fleet.yaml"), "three")
	must(t, os.Symlink(filepath.Join(here, "fleet.yaml"), path))
	f := follow(t, path, time.Hour)
	put(t, filepath.Join(here, "fleet.yaml"), "two")
	f.expect("two")
	must(t, os.Symlink(filepath.Join(there, "fleet.yaml"), path+".new"))
	must(t, os.Rename(path+".new", path))
	f.expect("three")
	put(t, filepath.Join(there, "fleet.yaml"), "four")
	f.expect("four")
}

// What happens to other files of the directory is none of its business.
func TestWatchIgnoresNeighbours(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "agents.yaml")
	put(t, path, "one")
	f := follow(t, path, time.Hour)
	// A false alarm would come one quiet time after the first neighbour, if not
	// put off by the next; the last expect would then find it.
	neighbour, own := filepath.Join(dir, "agents.yaml~"), time.NewTimer(2*quietTime)
	for done := false; !done; {
		select {
		case <-own.C:
			done = true
		case text := <-f.found:
			t.Fatalf("onChange was called for a neighbour, and found %q", text)
		default:
			put(t, neighbour, "other")
			must(t, os.Remove(neighbour))
		}
	}
	put(t, path, "two")
	f.expect("two")
}

// A directory that is removed and made again loses its watch; the regular look
// finds the new file, and the watch stands again.
func TestWatchDirectoryMadeAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etc")
	path := filepath.Join(dir, "agents.yaml")
	must(t, os.Mkdir(dir, 0o700))
	put(t, path, "one")
	f := follow(t, path, 50*time.Millisecond)
	must(t, os.RemoveAll(dir))
	f.expect("")
	must(t, os.Mkdir(dir, 0o700))
	put(t, path, "two")
	f.expect("two")
	put(t, path, "three")
	f.expect("three")
}

func TestWatchWithoutDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none", "agents.yaml")
	err := Watch(context.Background(), path, func() { t.Error("onChange was called without a watch") })
	if err == nil {
		t.Fatal("a directory that does not exist can be watched")
	}
}

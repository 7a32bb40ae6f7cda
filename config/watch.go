package config

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Times of Watch.
const (
	// quietTime is how long a file must have been still before it is read: an
	// editor or a copy writes in several steps.
	quietTime = 200 * time.Millisecond
	// lookTime is how often the file is looked at without a signal: network
	// file systems and single files mounted into a container tell nothing.
	lookTime = 10 * time.Second
)

// Watch calls onChange whenever the file at path has changed, appeared or
// disappeared and has then been still for 200 ms, until ctx ends; it then
// returns nil. It also calls onChange once as soon as the watch stands, so that
// a change between the first reading of the file and the watch is not missed.
//
// onChange is called from the goroutine that called Watch, never twice at once;
// it reads the file itself and must cope with one that is missing or broken. A
// file replaced by renaming, a swapped symbolic link (as Kubernetes does it) and
// a file deleted and created again are all followed. The error says why the
// directory cannot be watched.
func Watch(ctx context.Context, path string, onChange func()) error {
	return watch(ctx, path, onChange, lookTime)
}

func watch(ctx context.Context, path string, onChange func(), look time.Duration) error {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("watch %s: %w", path, err)
	}
	path = absolute
	notes, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", path, err)
	}
	defer notes.Close()
	// The directory, not the file: a watch on a file stays with the old content
	// when another file is renamed over it.
	if err := notes.Add(filepath.Dir(path)); err != nil {
		return fmt.Errorf("watch the directory of %s: %w", path, err)
	}
	target := followLink(notes, path, path)
	seen := lookAt(path)
	onChange()

	looks := time.NewTicker(look)
	defer looks.Stop()
	quiet := time.NewTimer(quietTime)
	quiet.Stop()
	defer quiet.Stop()
	// Most of what happens in the directory concerns other files.
	check := func(touched bool) {
		if now := lookAt(path); touched || !now.same(seen) {
			seen = now
			quiet.Reset(quietTime)
		}
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case note, ok := <-notes.Events:
			if !ok {
				return fmt.Errorf("watch %s: the file system stopped telling", path)
			}
			check(note.Op.Has(fsnotify.Write|fsnotify.Create) && (note.Name == path || note.Name == target))
		case <-notes.Errors:
			// Notes were lost. Look for oneself, as at every tick.
			check(false)
		case <-looks.C:
			// A directory that was removed and made again has lost its watch;
			// until it is there, the looking alone must do.
			_ = notes.Add(filepath.Dir(path))
			_ = notes.Add(filepath.Dir(target))
			check(false)
		case <-quiet.C:
			target = followLink(notes, path, target)
			onChange()
		}
	}
}

// followLink also watches the directory in which the file really is, where path
// is a symbolic link, and no longer the one of the target before. It returns the
// real path; where there is none at the moment, the old one.
func followLink(notes *fsnotify.Watcher, path, old string) string {
	target, err := filepath.EvalSymlinks(path)
	if err != nil || target == old {
		return old
	}
	home, before, after := filepath.Dir(path), filepath.Dir(old), filepath.Dir(target)
	// Both may fail because a directory is gone; the ticker's look covers that.
	if before != home && before != after {
		_ = notes.Remove(before)
	}
	_ = notes.Add(after)
	return target
}

// look is what can be known of a file without reading it.
type look struct {
	info fs.FileInfo // nil while there is no file
}

func lookAt(path string) look {
	info, err := os.Stat(path)
	if err != nil {
		return look{}
	}
	return look{info}
}

func (l look) same(o look) bool {
	if l.info == nil || o.info == nil {
		return l.info == nil && o.info == nil
	}
	return os.SameFile(l.info, o.info) && l.info.Size() == o.info.Size() &&
		l.info.ModTime().Equal(o.info.ModTime()) && l.info.Mode() == o.info.Mode()
}

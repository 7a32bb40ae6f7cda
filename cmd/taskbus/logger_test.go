package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"taskbus/config"
)

// writes is a sink that remembers each write(2) it would have been.
type writes struct {
	mu    sync.Mutex
	calls []string
	err   error
}

func (w *writes) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, string(p))
	return len(p), w.err
}

func (w *writes) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.calls)
}

func (w *writes) all() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.calls, "")
}

func TestLogBufferFlushesInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sink writes
		b := newLogBuffer(&sink)
		write := func(s string) {
			if _, err := b.Write([]byte(s)); err != nil {
				t.Fatal(err)
			}
		}
		write("one\n")
		time.Sleep(60 * time.Millisecond)
		write("two\n") // does not put the flush off
		if n := sink.count(); n != 0 {
			t.Errorf("after 60 ms: %d writes, want 0", n)
		}
		time.Sleep(40 * time.Millisecond)
		synctest.Wait()
		if n, all := sink.count(), sink.all(); n != 1 || all != "one\ntwo\n" {
			t.Errorf("after 100 ms: %d writes %q, want 1 with both lines", n, all)
		}
		time.Sleep(time.Second)
		if n := sink.count(); n != 1 {
			t.Errorf("with nothing to write: %d writes, want still 1", n)
		}
		write("three\n")
		time.Sleep(logFlushTime)
		synctest.Wait()
		if n := sink.count(); n != 2 {
			t.Errorf("100 ms after the next line: %d writes, want 2", n)
		}
	})
}

func TestLogBufferFlushesAtOnce(t *testing.T) {
	for _, tc := range []struct {
		level zerolog.Level
		now   bool
	}{
		{zerolog.DebugLevel, false}, {zerolog.InfoLevel, false}, {zerolog.NoLevel, false},
		{zerolog.WarnLevel, true}, {zerolog.ErrorLevel, true}, {zerolog.FatalLevel, true}, {zerolog.PanicLevel, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			var sink writes
			b := newLogBuffer(&sink)
			_, _ = b.WriteLevel(zerolog.InfoLevel, []byte("before\n"))
			_, _ = b.WriteLevel(tc.level, []byte("line\n"))
			want := ""
			if tc.now {
				want = "before\nline\n" // in order
			}
			if got := sink.all(); got != want {
				t.Errorf("%v: written at once %q, want %q", tc.level, got, want)
			}
			if err := b.Close(); err != nil || sink.all() != "before\nline\n" {
				t.Errorf("%v: after Close %q (%v)", tc.level, sink.all(), err)
			}
		})
	}
}

func TestLogBufferFlushesWhenFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sink writes
		b := newLogBuffer(&sink)
		line := []byte(strings.Repeat("x", 1023) + "\n")
		for range 63 {
			_, _ = b.Write(line)
		}
		if n := sink.count(); n != 0 {
			t.Errorf("after 63 KiB: %d writes, want 0", n)
		}
		_, _ = b.Write(line)
		if n := len(sink.all()); n != 64<<10 {
			t.Errorf("after 64 KiB: %d bytes written, want %d", n, 64<<10)
		}
	})
}

func TestLogBufferAfterClose(t *testing.T) {
	var sink writes
	b := newLogBuffer(&sink)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	_, _ = b.Write([]byte("late\n"))
	if got := sink.all(); got != "late\n" {
		t.Errorf("a line after Close: written %q, want it at once", got)
	}
}

func TestLogBufferTellsOfFailure(t *testing.T) {
	first := errors.New("disk full")
	sink := writes{err: first}
	b := newLogBuffer(&sink)
	_, _ = b.WriteLevel(zerolog.ErrorLevel, []byte("x\n"))
	sink.err = errors.New("another")
	if err := b.Close(); !errors.Is(err, first) {
		t.Errorf("Close: %v, want the first failure", err)
	}
}

// Whatever the interleaving: every line whole, once, and each writer's in order.
func TestLogBufferConcurrently(t *testing.T) {
	const writers, lines = 8, 2000
	var sink writes
	b := newLogBuffer(&sink)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range lines {
				level := zerolog.InfoLevel
				if i%100 == 0 {
					level = zerolog.WarnLevel
				}
				if _, err := b.WriteLevel(level, fmt.Appendf(nil, "%d %d\n", w, i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	var next [writers]int
	for line := range strings.Lines(sink.all()) {
		var w, i int
		if _, err := fmt.Sscanf(line, "%d %d\n", &w, &i); err != nil || i != next[w] {
			t.Fatalf("line %q: writer %d is at %d (%v)", line, w, next[w], err)
		}
		next[w]++
	}
	for w, n := range next {
		if n != lines {
			t.Errorf("writer %d: %d lines, want %d", w, n, lines)
		}
	}
}

func TestLoggerJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // whose clock begins at 2000-01-01T00:00:00Z
		time.Sleep(1500 * time.Microsecond)
		var sink bytes.Buffer
		logger, buffer := newLogger(config.LogWarn, config.LogJSON, true, &sink)
		logger.Info().Msg("not wanted at this level")
		logger.Warn().Str("task_id", "t-1").Msg("look")
		if err := buffer.Close(); err != nil {
			t.Fatal(err)
		}
		var got map[string]string
		if err := json.Unmarshal(sink.Bytes(), &got); err != nil {
			t.Fatalf("%v: %s", err, sink.String())
		}
		for field, want := range map[string]string{"level": "warn", "task_id": "t-1", "message": "look",
			"time": "2000-01-01T00:00:00.001Z"} {
			if got[field] != want {
				t.Errorf("%s is %q, want %q", field, got[field], want)
			}
		}
	})
}

func TestLoggerConsole(t *testing.T) {
	for _, colour := range []bool{false, true} {
		var sink writes
		logger, buffer := newLogger(config.LogDebug, config.LogConsole, colour, &sink)
		logger.Debug().Msg("first")
		logger.Error().Str("agent_id", "gpu-1").Msg("second")
		// An error is written at once, in this format too.
		if got := sink.all(); !strings.Contains(got, "first") || !strings.Contains(got, "second") ||
			strings.Contains(got, "\x1b") != colour {
			t.Errorf("colour %v: %q", colour, got)
		}
		if err := buffer.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLogLevels(t *testing.T) {
	for level, want := range map[config.LogLevel]zerolog.Level{
		config.LogDebug: zerolog.DebugLevel, config.LogInfo: zerolog.InfoLevel,
		config.LogWarn: zerolog.WarnLevel, config.LogError: zerolog.ErrorLevel,
	} {
		if got := logLevel(level); got != want {
			t.Errorf("%s: %v, want %v", level, got, want)
		}
	}
}

func BenchmarkLogger(b *testing.B) {
	logger, buffer := newLogger(config.LogInfo, config.LogJSON, false, io.Discard)
	b.ReportAllocs()
	for b.Loop() {
		logger.Info().Str("trace_id", "1d1ef842e7f1a3058854db0a62cd90bc").Str("task_id", "t-1").Str("agent_id", "gpu-1").
			Msg("task assigned")
	}
	if err := buffer.Close(); err != nil {
		b.Fatal(err)
	}
}

// A terminal gets lines for people, anything else JSON; LOG_FORMAT has the last word. /dev/null, the standard input
// and output of many jobs, is a character device as a terminal is, and none.
func TestLogFormatByWhereItGoes(t *testing.T) {
	open := func(name string) *os.File {
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	device, nothing := open("/dev/ptmx"), open(os.DevNull) // the first makes a terminal
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, c := range []struct {
		given config.LogFormat
		to    io.Writer
		want  config.LogFormat
	}{
		{config.LogAuto, device, config.LogConsole},
		{config.LogAuto, file, config.LogJSON},
		{config.LogAuto, nothing, config.LogJSON},
		{config.LogAuto, io.Discard, config.LogJSON},
		{config.LogJSON, device, config.LogJSON},
		{config.LogConsole, file, config.LogConsole},
	} {
		if got := logFormat(c.given, c.to); got != c.want {
			t.Errorf("%q to %T: %q, want %q", c.given, c.to, got, c.want)
		}
	}
}

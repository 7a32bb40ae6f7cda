package main

import (
	"io"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

const (
	logFlushSize = 64 << 10               // bytes that are written at once at the latest
	logFlushTime = 100 * time.Millisecond // how long a line may wait
)

// logBuffer gathers log lines and writes them together: a write(2) for each line
// would cost more than the decision it reports. A line is written after 100 ms,
// when 64 KiB have gathered, or at once from WARN on; what a crash can lose is
// therefore 100 ms of INFO.
//
// It is safe for concurrent use and keeps the lines in order. While w does not
// take what is written, loggers wait: no line is ever dropped for being late.
type logBuffer struct {
	mu      sync.Mutex
	w       io.Writer
	lines   []byte
	timer   *time.Timer // not nil while a flush is due
	closed  bool
	failure error // first error of w
}

func newLogBuffer(w io.Writer) *logBuffer {
	return &logBuffer{w: w, lines: make([]byte, 0, logFlushSize)}
}

// Write takes a whole line. It keeps no reference to it.
func (b *logBuffer) Write(line []byte) (int, error) { return b.WriteLevel(zerolog.NoLevel, line) }

// WriteLevel implements zerolog.LevelWriter. (NoLevel is above ERROR in number
// but says nothing about urgency.)
func (b *logBuffer) WriteLevel(level zerolog.Level, line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, line...)
	urgent := level >= zerolog.WarnLevel && level < zerolog.NoLevel
	if urgent || b.closed || len(b.lines) >= logFlushSize {
		return len(line), b.flush()
	}
	if b.timer == nil {
		b.timer = time.AfterFunc(logFlushTime, func() {
			// The error has no reader here; Close returns the first failure.
			_ = b.Flush()
		})
	}
	return len(line), nil
}

// Flush writes what has gathered.
func (b *logBuffer) Flush() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.flush()
}

func (b *logBuffer) flush() error {
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
	if len(b.lines) == 0 {
		return nil
	}
	_, err := b.w.Write(b.lines)
	// Kept for another try they would fill the memory when w is broken for good.
	b.lines = b.lines[:0]
	if b.failure == nil {
		b.failure = err
	}
	return err
}

// Close writes what has gathered and returns the first error of all writing. A
// line that comes later is written at once. It does not close w.
func (b *logBuffer) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	_ = b.flush() // failure has it, if it is the first
	return b.failure
}

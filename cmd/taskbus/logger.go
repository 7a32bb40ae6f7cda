package main

import (
	"io"
	"time"

	"github.com/rs/zerolog"

	"taskbus/cmd/taskbus/cli"
	"taskbus/config"
)

// logTime is RFC 3339 with milliseconds.
const logTime = "2006-01-02T15:04:05.000Z07:00"

// newLogger makes the logger of a command and the buffer behind it, which the
// caller closes at the very end. colour matters to the console format alone.
func newLogger(level config.LogLevel, format config.LogFormat, colour bool, w io.Writer) (zerolog.Logger, *logBuffer) {
	buffer := newLogBuffer(w)
	var sink io.Writer = buffer
	if format == config.LogConsole {
		sink = consoleWriter{
			zerolog.ConsoleWriter{Out: buffer, NoColor: !colour, TimeFormat: "15:04:05.000"},
			buffer,
		}
	}
	logger := zerolog.New(sink).Level(logLevel(level)).Hook(zerolog.HookFunc(stamp))
	return logger, buffer
}

// stamp adds the time. zerolog's own Timestamp goes by a variable that is global.
func stamp(e *zerolog.Event, _ zerolog.Level, _ string) {
	var space [len(logTime) + 8]byte
	e.Bytes(zerolog.TimestampFieldName, time.Now().UTC().AppendFormat(space[:0], logTime))
}

// logFormat is the format of a log that goes to w, where the environment says none: a terminal has a
// reader, anything else a program.
func logFormat(given config.LogFormat, w io.Writer) config.LogFormat {
	switch {
	case given != config.LogAuto:
		return given
	case cli.Terminal(w):
		return config.LogConsole
	default:
		return config.LogJSON
	}
}

func logLevel(level config.LogLevel) zerolog.Level {
	switch level {
	case config.LogDebug:
		return zerolog.DebugLevel
	case config.LogWarn:
		return zerolog.WarnLevel
	case config.LogError:
		return zerolog.ErrorLevel
	default:
		return zerolog.InfoLevel
	}
}

// consoleWriter keeps the level that ConsoleWriter drops.
type consoleWriter struct {
	zerolog.ConsoleWriter
	buffer *logBuffer
}

// WriteLevel implements zerolog.LevelWriter.
func (c consoleWriter) WriteLevel(level zerolog.Level, line []byte) (int, error) {
	n, err := c.Write(line)
	if err == nil && level >= zerolog.WarnLevel {
		err = c.buffer.Flush()
	}
	return n, err
}

// colourful reports whether w is a terminal that may show colours.
func colourful(w io.Writer, getenv func(string) string) bool {
	return getenv("NO_COLOR") == "" && cli.Terminal(w)
}

package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"taskbus/config"
	"taskbus/messages"
)

// The exit codes. They are part of the contract with scripts and supervisors.
const (
	ExitOK          = 0
	ExitFailed      = 1   // what was asked for did not succeed
	ExitUsage       = 2   // the command line is wrong
	ExitDiffer      = 3   // a bill differs from the history by more than the tolerance
	ExitPartly      = 4   // what a replay could compare is identical, and not everything could be compared
	ExitConfig      = 78  // EX_CONFIG: the configuration or the environment is wrong; starting again does not help
	ExitInterrupted = 130 // what a shell expects of a command that Ctrl-C has ended
)

// exitError is an error with an exit code of its own. Without err the output has said everything.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return "reported already"
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// Errors that are not printed, because the output says already what is wrong. They are exit codes.
var (
	ErrReported = error(&exitError{code: ExitFailed})
	ErrDiffers  = error(&exitError{code: ExitDiffer})
	ErrPartly   = error(&exitError{code: ExitPartly})
)

// UsageError is for what a flag or an argument says and cobra cannot check.
func UsageError(format string, args ...any) error {
	return &exitError{ExitUsage, fmt.Errorf(format, args...)}
}

// ConfigError is for whatever is wrong in agents.yaml or in the environment.
func ConfigError(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{ExitConfig, err}
}

// Interrupted is for a command that Ctrl-C has ended.
func Interrupted(text string) error { return &exitError{ExitInterrupted, errors.New(text)} }

// maxUsageError bounds what is said of a command line, in bytes: the part that is
// wrong is quoted, and may be a pasted novel.
const maxUsageError = 400

// exit prints err, if there is one, and gives the exit code.
func (a *App) exit(command *cobra.Command, err error) int {
	code := ExitUsage
	var own *exitError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &own):
		code = own.code
		if own.err == nil {
			return code
		}
	case a.began:
		code = ExitFailed
	}
	// Several faults of a configuration: one line each, then one to sum them up.
	var faults *config.Faults
	if errors.As(err, &faults) {
		for _, f := range faults.List {
			fmt.Fprintln(a.Err, f)
		}
		fmt.Fprintf(a.Err, "taskbus: the configuration has %s; correct every line above and try again\n",
			Count(len(faults.List), "fault"))
		return code
	}
	text, hint := OneLine(err.Error()), ""
	if code == ExitUsage {
		text = messages.Clean(text, maxUsageError)
		hint = fmt.Sprintf("; `%s --help` shows how it is used", command.CommandPath())
	}
	fmt.Fprintf(a.Err, "taskbus: %s%s\n", text, hint)
	return code
}

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"taskbus/config"
	"taskbus/messages"
)

// The exit codes. They are part of the contract with scripts and supervisors.
const (
	exitOK     = 0
	exitFailed = 1  // what was asked for did not succeed
	exitUsage  = 2  // the command line is wrong
	exitDiffer = 3  // a bill differs from the history by more than the tolerance
	exitPartly = 4  // what a replay could compare is identical, and not everything could be compared
	exitConfig = 78 // EX_CONFIG: the configuration or the environment is wrong; starting again does not help
)

// exitError is an error with an exit code of its own.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usageError is for what a flag or an argument says and cobra cannot check.
func usageError(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// configError is for whatever is wrong in agents.yaml or in the environment.
func configError(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{exitConfig, err}
}

// maxUsageError bounds what is said of a command line, in bytes: the part that is
// wrong is quoted, and may be a pasted novel.
const maxUsageError = 400

// errReported ends a command with exit code 1 whose output has said everything.
var errReported = errors.New("reported already")

// errDiffers is that with exit code 3.
var errDiffers = errors.New("the bill differs")

// errPartly is that with exit code 4.
var errPartly = errors.New("not everything was compared")

// exit prints err, if there is one, and gives the exit code.
func (a *app) exit(command *cobra.Command, err error) int {
	code := exitOK
	var own *exitError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errReported):
		return exitFailed
	case errors.Is(err, errDiffers):
		return exitDiffer
	case errors.Is(err, errPartly):
		return exitPartly
	case errors.As(err, &own):
		code = own.code
	case a.began:
		code = exitFailed
	default:
		code = exitUsage
	}
	// Several faults of a configuration: one line each, then one to sum them up.
	var faults *config.Faults
	if errors.As(err, &faults) {
		for _, f := range faults.List {
			fmt.Fprintln(a.err, f)
		}
		fmt.Fprintf(a.err, "taskbus: the configuration has %s; correct every line above and try again\n",
			count(len(faults.List), "fault"))
		return code
	}
	text, hint := oneLine(err.Error()), ""
	if code == exitUsage {
		text = messages.Clean(text, maxUsageError)
		hint = fmt.Sprintf("; `%s --help` shows how it is used", command.CommandPath())
	}
	fmt.Fprintf(a.err, "taskbus: %s%s\n", text, hint)
	return code
}

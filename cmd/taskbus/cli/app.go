package cli

import (
	"context"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"taskbus/coordinator/bus"
)

// App is what the commands need of the world outside. Tests give them another.
type App struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
	Now      func() time.Time
	OpenBus  func(url string, logger zerolog.Logger) bus.Bus
	// Notify takes SIGTERM, SIGINT and SIGHUP over. Commands that do not call it
	// end at once by any of them.
	Notify func() <-chan os.Signal
	// GiveBack undoes that: the next signal ends the process. nil: there is nothing to undo.
	GiveBack func()

	// Version of this build.
	Version string

	// Output is the flag -o.
	Output string
	// began is set once flags and arguments are in order: an error before that
	// is one of usage.
	began bool
}

// Frame gives a root command its streams and the flag -o.
func (a *App) Frame(root *cobra.Command) *cobra.Command {
	// Errors and usage are printed by exit, in one line.
	root.SilenceErrors, root.SilenceUsage = true, true
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		err := a.checkOutput(c)
		a.began = err == nil
		return err
	}
	root.PersistentFlags().StringVarP(&a.Output, "output", "o", OutputTable, "form of the output: table or json")
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	return root
}

// Run carries out one command line below a root command, and returns its exit code.
func (a *App) Run(ctx context.Context, root *cobra.Command, args []string) int {
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	return a.exit(command, err)
}

// Stoppable returns a context that ends at SIGINT or SIGTERM, for a command that
// has something to finish first. A second signal ends the process as usual.
func (a *App) Stoppable(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	signals := a.Notify()
	go func() {
		defer cancel()
		for {
			select {
			case <-ctx.Done():
				return
			case s := <-signals:
				if s != syscall.SIGHUP {
					if a.GiveBack != nil {
						a.GiveBack()
					}
					return
				}
			}
		}
	}()
	return ctx, cancel
}

// The values of -o. CSV is for commands with rows of numbers, which ask for it by [App.CSV].
const (
	OutputTable = "table"
	OutputJSON  = "json"
	OutputCSV   = "csv"
)

// CSV lets -o of a command be csv, too.
func (a *App) CSV(c *cobra.Command) {
	c.Annotations = map[string]string{OutputCSV: ""}
	c.Flags().StringVarP(&a.Output, "output", "o", OutputTable, "form of the output: table, json or csv")
}

func (a *App) checkOutput(c *cobra.Command) error {
	_, csv := c.Annotations[OutputCSV]
	switch {
	case a.Output == OutputTable, a.Output == OutputJSON, a.Output == OutputCSV && csv:
		return nil
	case csv:
		return UsageError("-o must be table, json or csv, not %q", a.Output)
	}
	return UsageError("-o must be table or json, not %q", a.Output)
}

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"taskbus/config/formula"
	"taskbus/coordinator/simulator"
	"taskbus/coordinator/simulator/chart"
)

// outputCSV is a value of -o that only simulate knows.
const outputCSV = "csv"

// exitInterrupted is what a shell expects of a command that Ctrl-C has ended.
const exitInterrupted = 130

// defaultTraces is where recorded workloads are looked for.
const defaultTraces = "../shared/traces"

type simulateFlags struct {
	list, show, timing bool
	plot, traces       string
	seeds              int
	output             string
}

func (a *app) simulateCommand() *cobra.Command {
	var flags simulateFlags
	c := &cobra.Command{
		Use:   "simulate SCENARIO",
		Short: "Compare strategies on a simulated fleet",
		Long: `Plays strategies side by side on a simulated fleet and load: the coordinator's own
engine, with a virtual clock in place of broker, agents and producers. SCENARIO is
a YAML file, or the name of one of the scenarios that --list shows; --show prints
such a scenario, to begin one of your own with.

Every strategy gets the same tasks at the same times, and a task would take as
long and end the same way on the same agent, so that a difference between two
lines is theirs and not luck's. The same scenario gives the same output, byte for
byte (but for --timing). With several seeds every value is a mean with its 95 %
confidence interval. Ctrl-C ends it with exit code 130 and without output.

What the columns mean:
  TASKS/S         tasks that agents finished, well or not
  SUCCESS %       tasks that succeeded, of those that ended
  WAIT            from a task's arrival to the start of work on it
  USED %          of the agents' slots, over time
  JAIN            how evenly the agents are used for their size; 1 is even
  IDLE S          seconds in which a task waited although an agent that might succeed
                  with it had a free slot
  REGRET SUCCESS  success probability given away by a decision, against the best
                  agent that had a free slot at that moment
  REWARD          the same for the rate of successes per second of work, in % of
                  the best`,
		Example: `  taskbus simulate --list
  taskbus simulate herding --plot herding.svg
  taskbus simulate sinkhole --show > mine.yaml
  taskbus simulate mine.yaml --seeds 10 -o csv`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case flags.list && len(args) == 0, !flags.list && len(args) == 1:
			case len(args) == 0:
				return usageError("name a scenario: a file, or one of %s", strings.Join(simulator.Shipped(), ", "))
			default:
				return usageError("one scenario at a time, and none with --list")
			}
			if o := flags.output; o != outputTable && o != outputJSON && o != outputCSV {
				return usageError("-o must be table, json or csv, not %q", o)
			}
			if _, err := chartFormat(flags.plot); err != nil {
				return err
			}
			if flags.seeds < 0 {
				return usageError("--seeds must be at least 1, not %d", flags.seeds)
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return simulator.Shipped(), cobra.ShellCompDirectiveDefault
		},
		RunE: func(c *cobra.Command, args []string) error {
			if flags.list {
				return a.listScenarios()
			}
			return a.simulate(c.Context(), flags, args[0])
		},
	}
	f := c.Flags()
	f.BoolVar(&flags.list, "list", false, "list the scenarios that come with the program")
	f.BoolVar(&flags.show, "show", false, "print the scenario's file instead of playing it")
	f.StringVar(&flags.plot, "plot", "", "draw a chart into this file; .svg or .png")
	f.StringVar(&flags.traces, "traces", defaultTraces, "folder of recorded workloads")
	f.IntVar(&flags.seeds, "seeds", 0, "play that many seeds (default: as the scenario says)")
	f.BoolVar(&flags.timing, "timing", false, "show how fast the simulation was; differs from run to run")
	f.StringVarP(&flags.output, "output", "o", outputTable, "form of the output: table, json or csv")
	return c
}

// chartFormat is the format that the name of a file asks for; empty for no file.
func chartFormat(file string) (chart.Format, error) {
	switch ext := strings.ToLower(filepath.Ext(file)); {
	case file == "":
		return "", nil
	case ext == ".svg":
		return chart.SVG, nil
	case ext == ".png":
		return chart.PNG, nil
	}
	return "", usageError("--plot must name a file that ends in .svg or .png, not %q", file)
}

func (a *app) listScenarios() error {
	t := newTable("SCENARIO", "WHAT IT SHOWS")
	for _, name := range simulator.Shipped() {
		s, err := simulator.Open(name)
		if err != nil {
			return err
		}
		t.rows = append(t.rows, []string{name, s.About})
	}
	return t.print(a.out)
}

func (a *app) simulate(ctx context.Context, flags simulateFlags, name string) error {
	text, source, err := scenarioText(name)
	if err != nil {
		return err
	}
	if flags.show {
		_, err := a.out.Write(text)
		return err
	}
	base := strings.TrimSuffix(filepath.Base(source), filepath.Ext(source))
	s, err := simulator.Read(source, base, text)
	var faults *simulator.Faults
	if errors.As(err, &faults) {
		for _, f := range faults.List {
			fmt.Fprintln(a.err, oneLine(f.String()))
		}
		fmt.Fprintf(a.err, "taskbus: the scenario has %s; correct every line above and try again\n", count(len(faults.List), "fault"))
		return errReported
	}
	if err != nil {
		return err
	}
	if flags.seeds > 0 {
		s.Seeds = nil
		for seed := range flags.seeds {
			s.Seeds = append(s.Seeds, uint64(seed+1))
		}
	}
	return a.play(ctx, flags, s)
}

// scenarioText finds a scenario: a file, or one that comes with the program.
func scenarioText(name string) (text []byte, source string, err error) {
	text, err = os.ReadFile(name)
	if err == nil {
		return text, name, nil
	}
	if !errors.Is(err, fs.ErrNotExist) || strings.ContainsAny(name, `/\`) || filepath.Ext(name) != "" {
		return nil, "", fmt.Errorf("read the scenario: %w; `taskbus simulate --list` shows those that come with the program", err)
	}
	text, err = simulator.ShippedText(name)
	return text, name + ".yaml", err
}

func (a *app) play(ctx context.Context, flags simulateFlags, s *simulator.Scenario) error {
	ctx, stop := a.stoppable(ctx)
	defer stop()
	o := simulator.Options{Trace: traceFolder(flags.traces), Formula: formula.Compile}
	bar := a.progressBar(s.Name)
	if bar != nil {
		o.Progress = func(share float64) { _ = bar.Set(int(share * barSteps)) } // a bar that cannot be drawn is no loss
	}
	if flags.timing {
		began := a.now()
		o.Stopwatch = func() time.Duration { return a.now().Sub(began) }
	}
	report, err := simulator.Play(ctx, s, o)
	if bar != nil {
		_ = bar.Clear()
	}
	if errors.Is(err, context.Canceled) {
		return &exitError{exitInterrupted, errors.New("interrupted; nothing is printed of a simulation that has not ended")}
	}
	if err != nil {
		return err
	}
	if err := writeChart(flags.plot, report); err != nil {
		return err
	}
	switch flags.output {
	case outputJSON:
		return report.WriteJSON(a.out)
	case outputCSV:
		return report.WriteCSV(a.out)
	default:
		return report.WriteTable(a.out)
	}
}

// traceFolder reads traces from a folder, or from wherever a file with a path is.
func traceFolder(folder string) func(string) ([]simulator.Request, error) {
	return func(name string) ([]simulator.Request, error) {
		path := simulator.TraceFile(name)
		if filepath.Base(path) == path {
			path = filepath.Join(folder, path)
		}
		file, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s does not exist; --traces names the folder that holds it", path)
		}
		if err != nil {
			return nil, err
		}
		defer file.Close()
		return simulator.ReadTrace(file)
	}
}

// writeChart draws the chart, if one is wanted. It is written at once, so that a
// fault leaves no half of it.
func writeChart(file string, report *simulator.Report) error {
	format, err := chartFormat(file)
	if err != nil || format == "" {
		return err
	}
	var b bytes.Buffer
	if err := chart.Draw(&b, report, format); err != nil {
		return err
	}
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the chart: %w", err)
	}
	return nil
}

// barSteps is how finely the bar moves.
const barSteps = 1000

// progressBar is a bar on a terminal, which appears when it takes more than a
// moment; nil where nobody would see it.
func (a *app) progressBar(what string) *progressbar.ProgressBar {
	if !terminal(a.err) {
		return nil
	}
	return progressbar.NewOptions(barSteps,
		progressbar.OptionSetWriter(a.err),
		progressbar.OptionSetDescription("simulating "+what),
		progressbar.OptionThrottle(200*time.Millisecond),
		progressbar.OptionSetElapsedTime(true),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetWidth(40),
	)
}

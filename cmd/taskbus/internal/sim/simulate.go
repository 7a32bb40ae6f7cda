package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"taskbus/cmd/taskbus/cli"
	"taskbus/coordinator/simulator"
)

type simulateFlags struct {
	list, show, timing bool
	plot, traces       string
	seeds              int
	sharing            sharingFlags
}

func SimulateCommand(a *cli.App) *cobra.Command {
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
                  the best

A scenario with a pulling section has agents that pull their work, and compares their
controllers instead. Its columns:
  ITEMS/S         items finished
  BACKLOG         items that wait or are worked on; UNCLAIMED: those of them that no
                  agent holds
  CLAIMS/S        claims of all agents
  DRAIN S         how long what an agent holds will take it, over time and, in
                  brackets, right after its claims
  IDLE            share of the time in which an agent holds nothing

A scenario with a sharing section has tenants that share an LLM provider, and compares
ways to choose which goes next. Its columns:
  OVER, UNDER     output tokens reserved and not taken, and taken and not reserved, as
                  parts of what was taken
  SERVICE GAP     the largest difference of service by weight while all wait, in cost
                  (input + 2 × output tokens); BOUND: what the theorem allows
  JAIN            how evenly they are served by weight while all wait; 1 is even
  WAIT            from a call's arrival to its start, as the calls come

A scenario with a priorities section has tasks of four priorities in an overload, and
compares the orders in which they are served: how long they WAIT for their start, and
which part of the STARTS each has while tasks come.`,
		Example: `  taskbus simulate --list
  taskbus simulate herding --plot herding.svg
  taskbus simulate sharing --tenants chat:1,code:3 --slots 24
  taskbus simulate sinkhole --show > mine.yaml
  taskbus simulate mine.yaml --seeds 10 -o csv`,
		Args: func(c *cobra.Command, args []string) error {
			switch {
			case flags.list && len(args) == 0, !flags.list && len(args) == 1:
			case len(args) == 0:
				return cli.UsageError("name a scenario: a file, or one of %s", strings.Join(simulator.Shipped(), ", "))
			default:
				return cli.UsageError("one scenario at a time, and none with --list")
			}
			if flags.list && a.Output == cli.OutputCSV {
				return cli.UsageError("-o must be table or json with --list, not %q", a.Output)
			}
			if c.Flags().Changed("plot") {
				if _, err := chartFormat(flags.plot); err != nil {
					return err
				}
			}
			if n := flags.seeds; c.Flags().Changed("seeds") && (n < 1 || n > simulator.MaxSeeds) {
				return cli.UsageError("--seeds must be from 1 to %d, not %d", simulator.MaxSeeds, n)
			}
			return flags.sharing.check(c.Flags())
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return simulator.Shipped(), cobra.ShellCompDirectiveDefault
		},
		RunE: func(c *cobra.Command, args []string) error {
			if flags.list {
				return listScenarios(a)
			}
			return simulate(c.Context(), a, flags, args[0])
		},
	}
	f := c.Flags()
	f.BoolVar(&flags.list, "list", false, "list the scenarios that come with the program")
	f.BoolVar(&flags.show, "show", false, "print the scenario's file instead of playing it")
	f.StringVar(&flags.plot, "plot", "", "draw a chart into this file; .svg or .png")
	f.StringVar(&flags.traces, "traces", defaultTraces, "folder of recorded workloads")
	f.IntVar(&flags.seeds, "seeds", 0, "play that many seeds (default: as the scenario says)")
	f.BoolVar(&flags.timing, "timing", false, "show how fast the simulation was; differs from run to run")
	flags.sharing.register(f)
	a.CSV(c)
	return c
}

// shippedScenario is one line of --list.
type shippedScenario struct {
	Scenario string `json:"scenario"`
	About    string `json:"about"`
}

func listScenarios(a *cli.App) error {
	t := cli.NewTable("SCENARIO", "WHAT IT SHOWS")
	t.Whole = true
	var list []shippedScenario
	for _, name := range simulator.Shipped() {
		s, err := simulator.Open(name)
		if err != nil {
			return err
		}
		list = append(list, shippedScenario{name, s.About})
		t.Row(name, s.About)
	}
	return a.Show(list, func(p *cli.Page) { p.Table(t) })
}

func simulate(ctx context.Context, a *cli.App, flags simulateFlags, name string) error {
	text, source, err := scenarioText(name)
	if err != nil {
		return err
	}
	if flags.show {
		_, err := a.Out.Write(text)
		return err
	}
	base := cli.OneLine(strings.TrimSuffix(filepath.Base(source), filepath.Ext(source)))
	s, err := simulator.Read(source, base, text)
	if err == nil {
		if flags.seeds > 0 {
			s.Seeds = simulator.Seeds(flags.seeds)
		}
		if flags.timing && s.Pulling != nil {
			return cli.UsageError("--timing is for scenarios with strategies; the agents of %s pull", base)
		}
		if s.Priorities != nil && (flags.timing || flags.plot != "") {
			return cli.UsageError("--timing and --plot are for scenarios with agents; %s has none", base)
		}
		if err := flags.sharing.apply(&flags, s); err != nil {
			return err
		}
		err = play(ctx, a, flags, s)
	}
	var faults *simulator.Faults
	if errors.As(err, &faults) {
		for _, f := range faults.List {
			fmt.Fprintln(a.Err, cli.OneLine(f.String()))
		}
		fmt.Fprintf(a.Err, "taskbus: the scenario has %s; correct every line above and try again\n",
			cli.Count(len(faults.List), "fault"))
		return cli.ErrReported
	}
	return err
}

// scenarioText finds a scenario: a file, or one that comes with the program.
func scenarioText(name string) (text []byte, source string, err error) {
	text, err = readBeginning(name, simulator.MaxFileBytes+1)
	if err == nil {
		return text, name, nil
	}
	if !errors.Is(err, fs.ErrNotExist) || strings.ContainsAny(name, `/\`) || filepath.Ext(name) != "" {
		return nil, "", fmt.Errorf("read the scenario: %w; `taskbus simulate --list` shows those that come with the "+
			"program", err)
	}
	text, err = simulator.ShippedText(name)
	return text, name + ".yaml", err
}

// readBeginning reads a file, at most so many bytes of it: it may be one that never
// ends.
func readBeginning(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, most))
}

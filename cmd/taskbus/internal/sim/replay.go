package sim

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"taskbus/cmd/taskbus/cli"
	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/replay"
	"taskbus/coordinator/strategy"
)

type replayFlags struct {
	strategy, config string
	// call is the id of a reservation, agent its agent (nil: any).
	call  string
	agent *string
}

// whatIf reports whether another policy is asked for.
func (f *replayFlags) whatIf() bool { return f.strategy != "" || f.config != "" }

func ReplayCommand(a *cli.App) *cobra.Command {
	var flags replayFlags
	var agent string
	c := &cobra.Command{
		Use:   "replay EXPORT",
		Short: "Repeat recorded decisions, and compare, or try another strategy on them",
		Long: `Gives the engine of this program what coordinators have recorded of their inputs, and
compares its decisions with those in the journal, byte by byte. EXPORT is a file of
"taskbus journal export --all"; journal.record_inputs in agents.yaml switches the
recording on.

  exit code 0  all decisions are the same
  exit code 1  the first difference is shown and explained: this version decides
               otherwise than the one that wrote the journal, or the export is not
               what was recorded
  exit code 4  some records, or all, could not be compared; the first line says how many

With --strategy, --config or both it shows what would have been: how many tasks
would have succeeded, failed and waited, and which agents would have got them. The
world cannot be asked again, so a part of that is modelled; the output says which,
and shows beside it what truly happened. The model is given the recorded policy as
well: compare "before" with "after".

With --call it shows what was answered about the call whose reservation has this id:
where it went, and the scores of all that it might have gone to.

No broker is needed, and no environment variable is looked at. docs/replay.md has
more.`,
		Example: `  taskbus journal export --all monday.tbj
  taskbus replay monday.tbj
  taskbus replay monday.tbj --strategy load_balanced
  taskbus replay monday.tbj --call r-1 --agent gpu-1
  taskbus replay monday.tbj --config config/agents.new.yaml -o json`,
		Args: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("agent") {
				flags.agent = &agent
			}
			csv := a.Output == cli.OutputCSV
			switch {
			case len(args) != 1:
				return cli.UsageError("name one export of the journal")
			case flags.call != "" && (flags.whatIf() || csv), flags.agent != nil && flags.call == "":
				return cli.UsageError(
					"--call, with or without --agent, shows what was answered: without --strategy, --config and -o csv")
			case csv && !flags.whatIf():
				return cli.UsageError("-o csv is for comparisons; add --strategy or --config")
			case flags.strategy != "" && !strategy.Known(flags.strategy):
				return cli.UsageError("no strategy is called %q; there are %s", flags.strategy,
					strings.Join(strategy.Names(), ", "))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return replayExport(a, flags, args[0]) },
	}
	f := c.Flags()
	f.StringVar(&flags.strategy, "strategy", "", "what if: this strategy for every task that does not ask for one "+
		"itself")
	f.StringVar(&flags.config, "config", "",
		"what if: this agents.yaml instead of the recorded one, with the recorded quotas, and no reloads")
	f.StringVar(&flags.call, "call", "", "show what was answered about the call with this reservation_id")
	f.StringVar(&agent, "agent", "", "with --call: of this agent alone; empty for a gateway's that names none")
	a.CSV(c)
	return c
}

func replayExport(a *cli.App, flags replayFlags, path string) error {
	other, err := otherPolicies(flags)
	if err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read the export: %w", err)
	}
	defer file.Close() // only read from: nothing can be lost by closing it
	recordings, err := replay.Read(file)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if flags.call != "" {
		return replayCall(a, flags, recordings)
	}
	if flags.whatIf() {
		return compare(a, recordings, other)
	}
	return verify(a, recordings)
}

// verify holds every recording against its journal.
func verify(a *cli.App, recordings []*replay.Recording) error {
	var reports []replay.Report
	different, compared, left := false, 0, 0
	for _, r := range recordings {
		policies := recordedPolicies{}
		v, err := r.Verify(policies.find)
		if err != nil {
			return err
		}
		report := r.Report(v)
		report.Notes = append(report.Notes, policies.notes...)
		reports = append(reports, report)
		different = different || v.Difference != nil
		compared, left = compared+report.Records, left+report.NotCompared()
	}
	err := a.Show(reports, func(p *cli.Page) {
		for i := range reports {
			p.Fail(reports[i].WriteText(p))
		}
	})
	switch {
	case err != nil:
		return err
	case different:
		return cli.ErrReported
	case compared == 0 || left > 0:
		return cli.ErrPartly
	}
	return nil
}

// compare shows what every recording would have come to. One of which nothing can be
// said is named, and the others are shown.
func compare(a *cli.App, recordings []*replay.Recording, other replay.Policies) error {
	comparisons := []*replay.Comparison{} // a list in JSON, also without any
	different := false
	for _, r := range recordings {
		policies := recordedPolicies{}
		c, err := r.Compare(policies.find, other)
		var differs *replay.DiffersError
		switch {
		case errors.As(err, &differs), errors.Is(err, replay.ErrNoEndings):
			fmt.Fprintf(a.Err, "taskbus: recording %s of epoch %d: %s\n", r.Name, r.Epoch, cli.OneLine(err.Error()))
			different = different || differs != nil
			continue
		case err != nil:
			return err
		}
		c.Notes = append(c.Notes, policies.notes...)
		comparisons = append(comparisons, c)
	}
	err := a.Show(comparisons, func(p *cli.Page) {
		for i, c := range comparisons {
			switch {
			case a.Output == cli.OutputCSV:
				p.Fail(c.WriteCSV(p, i == 0))
				continue
			case i > 0:
				p.Blank()
			}
			p.Fail(c.WriteTable(p))
		}
	})
	if err != nil || !different && len(comparisons) > 0 {
		return err
	}
	return cli.ErrReported
}

// otherPolicies are those of the flags.
func otherPolicies(flags replayFlags) (replay.Policies, error) {
	base := new(recordedPolicies).find
	if flags.config != "" {
		c, err := config.Load(flags.config, config.Environment{})
		if err != nil {
			return nil, cli.ConfigError(err)
		}
		base = func(recorded *coordinator.Policy) (*coordinator.Policy, error) { return withQuotasOf(recorded, c) }
	}
	if flags.strategy == "" {
		return base, nil
	}
	return func(recorded *coordinator.Policy) (*coordinator.Policy, error) {
		p, err := base(recorded)
		if err != nil {
			return nil, err
		}
		return replay.WithStrategy(p, flags.strategy)
	}, nil
}

// withQuotasOf is another agents.yaml with the quotas that were recorded: only what is asked
// for is other than it was.
func withQuotasOf(recorded *coordinator.Policy, c *config.Config) (*coordinator.Policy, error) {
	if recorded.Source == "" {
		return c.Policy(), nil
	}
	before, err := new(recordedPolicies).find(recorded)
	if err != nil {
		return nil, err
	}
	return c.WithQuotas(before.Quotas).Policy(), nil
}

// recordedPolicies reads policies from the text that was recorded of them.
type recordedPolicies struct {
	notes []string
}

func (r *recordedPolicies) find(recorded *coordinator.Policy) (*coordinator.Policy, error) {
	if recorded.Source == "" {
		return nil, errors.New("its text was not recorded")
	}
	c, err := config.ParseSource(recorded.Source, "recorded")
	if err != nil {
		// no *config.Faults: they cannot be corrected
		return nil, fmt.Errorf("this version of taskbus does not accept it; use the one that recorded it: %v", err)
	}
	p := c.Policy()
	if p.Version != recorded.Version && len(r.notes) == 0 {
		r.notes = append(r.notes, fmt.Sprintf(
			"the configuration %s has the version %s here: another version of taskbus has recorded it, whose "+
				"defaults may be others", recorded.Version, p.Version))
	}
	return p, nil
}

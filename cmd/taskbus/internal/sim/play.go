package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"taskbus/cmd/taskbus/cli"
	"taskbus/config/formula"
	"taskbus/config/yamlconf"
	"taskbus/coordinator/simulator"
	"taskbus/coordinator/simulator/chart"
	"taskbus/coordinator/simulator/priorities"
	"taskbus/coordinator/simulator/pulling"
	"taskbus/coordinator/simulator/sharing"
	"taskbus/coordinator/strategy"
)

func play(ctx context.Context, a *cli.App, flags simulateFlags, s *simulator.Scenario) error {
	ctx, stop := a.Stoppable(ctx)
	defer stop()
	drawing, err := newChartFile(flags.plot)
	if err != nil {
		return err
	}
	defer drawing.discard()
	progress, end := shownPlay(a, s.Name)
	var report written
	var draw func(io.Writer, chart.Format) error
	switch {
	case s.Pulling != nil:
		report, draw, err = playPulling(ctx, s, progress)
	case s.Sharing != nil:
		report, err = sharing.Play(ctx, s, sharing.Options{Trace: traceFolder(flags.traces), Progress: progress})
	case s.Priorities != nil:
		report, err = priorities.Play(ctx, s, progress)
	default:
		report, draw, err = playStrategies(ctx, a, flags, s, progress)
	}
	end()
	if errors.Is(err, context.Canceled) {
		return cli.Interrupted("interrupted; nothing is printed of a simulation that has not ended")
	}
	if err != nil {
		return err
	}
	if err := drawing.write(draw); err != nil {
		return err
	}
	switch a.Output {
	case cli.OutputJSON:
		return simulator.WriteJSON(a.Out, report)
	case cli.OutputCSV:
		return report.WriteCSV(a.Out)
	default:
		return report.WriteTable(a.Out)
	}
}

// written is what comes out of a scenario, of whichever kind.
type written interface {
	WriteTable(io.Writer) error
	WriteCSV(io.Writer) error
}

// playStrategies plays a scenario with strategies, and returns its report and what draws its chart.
func playStrategies(ctx context.Context, a *cli.App, flags simulateFlags, s *simulator.Scenario,
	progress func(float64)) (written, func(io.Writer, chart.Format) error, error) {
	o := simulator.Options{Trace: traceFolder(flags.traces), Formula: compileFormula, Progress: progress}
	if flags.timing {
		began := a.Now()
		o.Stopwatch = func() time.Duration { return a.Now().Sub(began) }
	}
	r, err := simulator.Play(ctx, s, o)
	return r, func(w io.Writer, f chart.Format) error { return chart.Draw(w, r, f) }, err
}

// playPulling does the same for a scenario with agents that pull.
func playPulling(ctx context.Context, s *simulator.Scenario, progress func(float64)) (written,
	func(io.Writer, chart.Format) error, error) {
	r, err := pulling.Play(ctx, s, progress)
	return r, func(w io.Writer, f chart.Format) error { return chart.DrawPulling(w, r, f) }, err
}

// compileFormula compiles a formula, and says of an unknown name what may be meant.
func compileFormula(text string) (strategy.Score, error) {
	score, err := formula.Compile(text)
	var wrong *formula.Error
	if errors.As(err, &wrong) && wrong.Unknown != "" {
		return nil, fmt.Errorf("%w%s", err, yamlconf.DidYouMean(wrong.Unknown, formula.Names()))
	}
	return score, err
}

// shownPlay shows on a terminal how far a simulation is, and how long it will still take; nothing where it would not
// be seen. End it before anything else is printed.
func shownPlay(a *cli.App, what string) (report func(share float64), end func()) {
	if !cli.Terminal(a.Err) {
		return nil, func() {}
	}
	p := cli.Progress{W: a.Err, Doing: "simulating " + what, Rewrite: true}
	began := a.Now()
	return func(share float64) {
		now := a.Now()
		p.Report(now, func() string {
			left := time.Duration(float64(now.Sub(began)) * (1 - share) / share)
			return fmt.Sprintf("%.0f %%, %s left", 100*share, left.Round(time.Second))
		})
	}, p.End
}

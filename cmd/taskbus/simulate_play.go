package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"

	"taskbus/config/formula"
	"taskbus/coordinator/simulator"
	"taskbus/coordinator/simulator/chart"
	"taskbus/coordinator/simulator/priorities"
	"taskbus/coordinator/simulator/pulling"
	"taskbus/coordinator/simulator/sharing"
	"taskbus/coordinator/strategy"
)

func (a *app) play(ctx context.Context, flags simulateFlags, s *simulator.Scenario) error {
	ctx, stop := a.stoppable(ctx)
	defer stop()
	drawing, err := newChartFile(flags.plot)
	if err != nil {
		return err
	}
	defer drawing.discard()
	bar := a.progressBar(s.Name)
	var progress func(float64)
	if bar != nil {
		progress = func(share float64) { _ = bar.Set(int(share * barSteps)) } // a bar that cannot be drawn is no loss
	}
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
		report, draw, err = a.playStrategies(ctx, flags, s, progress)
	}
	if bar != nil {
		_ = bar.Clear()
	}
	if errors.Is(err, context.Canceled) {
		return &exitError{exitInterrupted, errors.New("interrupted; nothing is printed of a simulation that has not ended")}
	}
	if err != nil {
		return err
	}
	if err := drawing.write(draw); err != nil {
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

// written is what comes out of a scenario, of whichever kind.
type written interface {
	WriteTable(io.Writer) error
	WriteJSON(io.Writer) error
	WriteCSV(io.Writer) error
}

// playStrategies plays a scenario whose tasks are pushed, and gives its report and what
// draws its chart.
func (a *app) playStrategies(ctx context.Context, flags simulateFlags, s *simulator.Scenario,
	progress func(float64)) (written, func(io.Writer, chart.Format) error, error) {
	o := simulator.Options{Trace: traceFolder(flags.traces), Formula: compileFormula, Progress: progress}
	if flags.timing {
		began := a.now()
		o.Stopwatch = func() time.Duration { return a.now().Sub(began) }
	}
	r, err := simulator.Play(ctx, s, o)
	return r, func(w io.Writer, f chart.Format) error { return chart.Draw(w, r, f) }, err
}

// playPulling does the same for a scenario whose agents pull.
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
		return nil, fmt.Errorf("%w%s", err, simulator.DidYouMean(wrong.Unknown, formula.Names()))
	}
	return score, err
}

// barSteps is how finely the bar moves.
const barSteps = 1000

// progressBar is a bar on a terminal, which appears when it takes more than a moment; nil where it would
// not be seen.
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

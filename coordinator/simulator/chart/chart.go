package chart

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"taskbus/coordinator/simulator"
)

// Format is a file format of charts.
type Format string

// The formats.
const (
	SVG Format = "svg"
	PNG Format = "png"
)

// Size of one panel.
const (
	panelWidth  = 13 * vg.Centimeter
	panelHeight = 9 * vg.Centimeter
)

// colours are Okabe and Ito's, which people tell apart whatever colours they see;
// beyond them the dashes differ.
var colours = []color.RGBA{
	{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xcc, 0x79, 0xa7, 0xff},
	{0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff}, {0x00, 0x00, 0x00, 0xff},
}

// dashes tell apart what has the same colour, and lines that lie on each other.
var dashes = [][]vg.Length{nil, {6, 3}, {2, 2}, {8, 3, 2, 3}, {12, 4}}

// Draw writes the chart of a report.
func Draw(w io.Writer, r *simulator.Report, f Format) error {
	panels, err := panelsOf(r)
	if err != nil {
		return fmt.Errorf("draw the chart of %s: %w", r.Scenario, err)
	}
	labels := make([]string, len(r.Strategies))
	for i := range r.Strategies {
		labels[i] = r.Strategies[i].Label
	}
	return sheet{r.Scenario, r.About, labels, []panelRow{{panels: panels}}, panelWidth, panelHeight}.draw(w, f)
}

// panelsOf makes the panels that have something to say about the report.
func panelsOf(r *simulator.Report) ([]*plot.Plot, error) {
	var makers []func(*simulator.Report) (*plot.Plot, error)
	if anyWaited(r) {
		makers = append(makers, waits)
	}
	makers = append(makers, regrets)
	if len(r.Strategies[0].Groups) > 1 {
		makers = append(makers, shares)
	}
	var panels []*plot.Plot
	for _, m := range makers {
		p, err := m(r)
		if err != nil {
			return nil, err
		}
		setFonts(p)
		panels = append(panels, p)
	}
	return panels, nil
}

// setFonts makes the texts of a panel a little smaller than usual, without serifs.
func setFonts(p *plot.Plot) {
	p.Title.Padding = 4
	p.Y.Tick.Marker = wholeTicks{}
	for _, t := range []struct {
		style *draw.TextStyle
		size  vg.Length
	}{
		{&p.Title.TextStyle, 11}, {&p.X.Label.TextStyle, 10}, {&p.Y.Label.TextStyle, 10},
		{&p.X.Tick.Label, 9}, {&p.Y.Tick.Label, 9},
	} {
		t.style.Font.Size, t.style.Font.Variant = t.size, "Sans"
	}
}

// anyWaited reports whether any task had to wait for as long as can be seen.
func anyWaited(r *simulator.Report) bool {
	for i := range r.Strategies {
		if last(r.Strategies[i].WaitQuantiles) > leastWait {
			return true
		}
	}
	return false
}

// leastWait is where the axis of waits begins: what waited less hardly waited.
const leastWait = 0.001

// waits draws which share of the tasks waited at most how long.
func waits(r *simulator.Report) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = "tasks that waited at most so long"
	p.X.Label.Text, p.Y.Label.Text = "seconds from arrival to start", "% of tasks"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, decades{}
	p.Y.Min, p.Y.Max = 0, 101
	longest := 1.0
	for i := range r.Strategies {
		q := r.Strategies[i].WaitQuantiles
		points := make(plotter.XYs, 0, len(q)+1)
		for j, wait := range q {
			share := 100 * float64(j) / float64(len(q)-1)
			points = append(points, plotter.XY{X: math.Max(wait, leastWait), Y: share})
			longest = math.Max(longest, wait)
		}
		if err := add(p, points, i); err != nil {
			return nil, err
		}
	}
	p.X.Min, p.X.Max = leastWait, math.Pow(10, math.Ceil(math.Log10(longest)))
	p.Add(plotter.NewGrid())
	return p, nil
}

// regrets draws what the decisions gave away, summed up: successes, or, where all
// agents succeed alike, parts of the best reward rate.
func regrets(r *simulator.Report) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = "given away against the best choice, summed up"
	p.X.Label.Text, p.Y.Label.Text = "seconds", "successes (expected)"
	course, most := func(s *simulator.Performance) []float64 { return s.RegretCourse }, 0.0
	for i := range r.Strategies {
		most = math.Max(most, last(course(&r.Strategies[i])))
	}
	if most == 0 {
		p.Y.Label.Text = "decisions' worth of the best reward rate"
		course = func(s *simulator.Performance) []float64 { return s.RewardCourse }
	}
	for i := range r.Strategies {
		y := course(&r.Strategies[i])
		points := plotter.XYs{{X: r.WarmUp, Y: 0}}
		for j, sum := range y {
			at := r.WarmUp + (r.Duration-r.WarmUp)*float64(j+1)/float64(len(y))
			points = append(points, plotter.XY{X: at, Y: sum})
		}
		if err := add(p, points, i); err != nil {
			return nil, err
		}
	}
	p.Y.Min, p.Y.Max = 0, math.Max(p.Y.Max, 1)
	p.Add(plotter.NewGrid())
	return p, nil
}

// shares draws which share of the decisions each group of agents got.
func shares(r *simulator.Report) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = "who got the work"
	p.Y.Label.Text = "% of decisions"
	groups := r.Strategies[0].Groups
	names := make([]string, len(groups))
	for g := range groups {
		names[g] = groups[g].Group
		if n := groups[g].Agents; n > 1 {
			names[g] = fmt.Sprintf("%s ×%d", names[g], n)
		}
	}
	n := len(r.Strategies)
	width := 9 * vg.Centimeter / vg.Length(len(groups)*(n+1))
	for i := range r.Strategies {
		values := make(plotter.Values, len(groups))
		for g := range values {
			values[g] = 100 * r.Strategies[i].Groups[g].Share.Mean
		}
		bars, err := plotter.NewBarChart(values, width)
		if err != nil {
			return nil, err
		}
		bars.Color, bars.LineStyle.Width = colours[i%len(colours)], 0
		bars.Offset = width * (vg.Length(i) - vg.Length(n-1)/2)
		p.Add(bars)
	}
	p.NominalX(names...)
	p.Y.Min, p.Y.Max = 0, math.Max(p.Y.Max, 1)
	return p, nil
}

func add(p *plot.Plot, points plotter.XYs, strategy int) error {
	line, err := plotter.NewLine(points)
	if err != nil {
		return err
	}
	line.LineStyle = style(strategy)
	p.Add(line)
	return nil
}

func style(strategy int) draw.LineStyle {
	return draw.LineStyle{Color: colours[strategy%len(colours)], Width: 1.8, Dashes: dashes[strategy%len(dashes)]}
}

func last(course []float64) float64 {
	if len(course) == 0 {
		return 0
	}
	return course[len(course)-1]
}

// wholeTicks labels the usual ticks without decimals that say nothing.
type wholeTicks struct{}

func (wholeTicks) Ticks(lo, hi float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(lo, hi)
	for i := range ticks {
		if ticks[i].Label != "" {
			ticks[i].Label = strconv.FormatFloat(ticks[i].Value, 'f', -1, 64)
		}
	}
	return ticks
}

// decades puts a tick at every power of ten.
type decades struct{}

func (decades) Ticks(lo, hi float64) []plot.Tick {
	var ticks []plot.Tick
	for e := math.Floor(math.Log10(lo)); e <= math.Ceil(math.Log10(hi)); e++ {
		x := math.Pow(10, e)
		ticks = append(ticks, plot.Tick{Value: x, Label: fmt.Sprintf("%g", x)})
	}
	return ticks
}

package chart

import (
	"fmt"
	"io"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"taskbus/coordinator/simulator/pulling"
)

// Size of one of the many panels of agents that pull.
const (
	smallWidth  = 9 * vg.Centimeter
	smallHeight = 6 * vg.Centimeter
)

// leastDrain is where the axis of drain times begins: an agent that holds less holds nothing.
const leastDrain = 0.01

// DrawPulling writes the chart of a report of agents that pull: how long what each agent
// holds will take it, as time goes by; a row for each load, a column for each
// controller, and one scale for all.
func DrawPulling(w io.Writer, r *pulling.Report, f Format) error {
	labels := make([]string, len(r.Agents))
	for i, a := range r.Agents {
		labels[i] = fmt.Sprintf("%s, %g items/s", a.Name, a.Capacity)
	}
	most := math.Pow(10, math.Ceil(math.Log10(longestDrain(r))))
	var rows []panelRow
	for i := range r.Loads {
		row := panelRow{heading: r.Loads[i].Label}
		for j := range r.Loads[i].Controllers {
			p, err := drains(r, &r.Loads[i].Controllers[j], most)
			if err != nil {
				return fmt.Errorf("draw the chart of %s: %w", r.Scenario, err)
			}
			p.Title.Text, p.Y.Label.Text = r.Loads[i].Controllers[j].Label, "drain time, s"
			row.panels = append(row.panels, p)
		}
		rows = append(rows, row)
	}
	return sheet{r.Scenario, r.About, labels, rows, smallWidth, smallHeight}.draw(w, f)
}

// longestDrain of all, 1 s at least.
func longestDrain(r *pulling.Report) float64 {
	longest := 1.0
	for i := range r.Loads {
		for j := range r.Loads[i].Controllers {
			for _, a := range r.Loads[i].Controllers[j].Agents {
				for _, x := range a.DrainCourse {
					longest = math.Max(longest, x)
				}
			}
		}
	}
	return longest
}

// drains draws one controller under one load.
func drains(r *pulling.Report, c *pulling.Performance, most float64) (*plot.Plot, error) {
	p := plot.New()
	p.X.Label.Text = "seconds"
	for i := range c.Agents {
		course := c.Agents[i].DrainCourse
		points := make(plotter.XYs, len(course))
		for j, x := range course {
			// A span's mean stands in its middle.
			points[j] = plotter.XY{X: r.Duration * (float64(j) + 0.5) / float64(len(course)), Y: math.Max(x, leastDrain)}
		}
		if err := add(p, points, i); err != nil {
			return nil, err
		}
	}
	p.X.Min, p.X.Max = 0, r.Duration
	p.Y.Min, p.Y.Max = leastDrain, most
	p.Y.Scale = plot.LogScale{}
	setFonts(p)
	p.Y.Tick.Marker = decades{}
	p.Add(plotter.NewGrid())
	return p, nil
}

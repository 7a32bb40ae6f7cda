package chart

import (
	"fmt"
	"io"
	"math"

	"taskbus/coordinator/simulator/pulling"
)

// Size of one of the many panels of agents that pull.
const (
	smallWidth  = 9 * centimeter
	smallHeight = 6 * centimeter
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
	most := decadeAbove(longestDrain(r))
	var rows []panelRow
	for i := range r.Loads {
		row := panelRow{heading: r.Loads[i].Label}
		for j := range r.Loads[i].Controllers {
			row.panels = append(row.panels, drains(r, &r.Loads[i].Controllers[j], most))
		}
		rows = append(rows, row)
	}
	return sheet{r.Scenario, r.About, labels, rows, smallWidth, smallHeight}.write(w, f)
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
func drains(r *pulling.Report, c *pulling.Performance, most float64) panel {
	p := panel{title: c.Label, xLabel: "seconds", yLabel: "drain time, s",
		x: axis{hi: r.Duration}, y: axis{lo: leastDrain, hi: most, log: true}}
	for i := range c.Agents {
		course := c.Agents[i].DrainCourse
		points := make([]point, len(course))
		for j, x := range course {
			// A span's mean stands in its middle.
			points[j] = point{r.Duration * (float64(j) + 0.5) / float64(len(course)), math.Max(x, leastDrain)}
		}
		p.courses = append(p.courses, points)
	}
	return p
}

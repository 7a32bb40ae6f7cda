package chart

import (
	"fmt"
	"io"
	"math"

	"taskbus/coordinator/simulator"
)

// Format is a file format of charts.
type Format string

// The formats.
const (
	SVG Format = "svg"
	PNG Format = "png"
)

// centimeter is one in points, the unit of all lengths here: 72 to an inch.
const centimeter = 72 / 2.54

// Size of one panel.
const (
	panelWidth  = 13 * centimeter
	panelHeight = 9 * centimeter
)

// Draw writes the chart of a report.
func Draw(w io.Writer, r *simulator.Report, f Format) error {
	labels := make([]string, len(r.Strategies))
	for i := range r.Strategies {
		labels[i] = r.Strategies[i].Label
	}
	return sheet{r.Scenario, r.About, labels, []panelRow{{panels: panelsOf(r)}}, panelWidth, panelHeight}.write(w, f)
}

// panelsOf makes the panels that have something to say about the report.
func panelsOf(r *simulator.Report) []panel {
	var panels []panel
	if anyWaited(r) {
		panels = append(panels, waits(r))
	}
	panels = append(panels, regrets(r))
	if len(r.Strategies[0].Groups) > 1 {
		panels = append(panels, shares(r))
	}
	return panels
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
func waits(r *simulator.Report) panel {
	p := panel{title: "tasks that waited at most so long", xLabel: "seconds from arrival to start",
		yLabel: "% of tasks", x: axis{lo: leastWait, log: true}, y: axis{hi: 101}}
	longest := 1.0
	for i := range r.Strategies {
		q := r.Strategies[i].WaitQuantiles
		course := make([]point, len(q))
		for j, wait := range q {
			course[j] = point{math.Max(wait, leastWait), 100 * float64(j) / float64(len(q)-1)}
			longest = math.Max(longest, wait)
		}
		p.courses = append(p.courses, course)
	}
	p.x.hi = decadeAbove(longest)
	return p
}

// regrets draws what the decisions gave away, summed up: successes, or, where all
// agents succeed alike, parts of the best reward rate.
func regrets(r *simulator.Report) panel {
	p := panel{title: "given away against the best choice, summed up", xLabel: "seconds",
		yLabel: "successes (expected)", x: axis{lo: r.WarmUp, hi: r.Duration}, y: axis{hi: 1}}
	course, most := func(s *simulator.Performance) []float64 { return s.RegretCourse }, 0.0
	for i := range r.Strategies {
		most = math.Max(most, last(course(&r.Strategies[i])))
	}
	if most == 0 {
		p.yLabel = "decisions' worth of the best reward rate"
		course = func(s *simulator.Performance) []float64 { return s.RewardCourse }
	}
	for i := range r.Strategies {
		y := course(&r.Strategies[i])
		points := []point{{r.WarmUp, 0}}
		for j, sum := range y {
			at := r.WarmUp + (r.Duration-r.WarmUp)*float64(j+1)/float64(len(y))
			points = append(points, point{at, sum})
			p.y.hi = math.Max(p.y.hi, sum)
		}
		p.courses = append(p.courses, points)
	}
	return p
}

// shares draws which share of the decisions each group of agents got.
func shares(r *simulator.Report) panel {
	p := panel{title: "who got the work", yLabel: "% of decisions", y: axis{hi: 1}}
	for g, group := range r.Strategies[0].Groups {
		name := group.Group
		if group.Agents > 1 {
			name = fmt.Sprintf("%s ×%d", name, group.Agents)
		}
		heights := make([]float64, len(r.Strategies))
		for i := range heights {
			heights[i] = 100 * r.Strategies[i].Groups[g].Share.Mean
			p.y.hi = math.Max(p.y.hi, heights[i])
		}
		p.bars = append(p.bars, bars{name, heights})
	}
	return p
}

// decadeAbove is the first power of ten that is not below x.
func decadeAbove(x float64) float64 { return math.Pow(10, math.Ceil(math.Log10(x))) }

func last(course []float64) float64 {
	if len(course) == 0 {
		return 0
	}
	return course[len(course)-1]
}

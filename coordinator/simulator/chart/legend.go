package chart

import (
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"taskbus/coordinator/simulator"
)

// perPanel is how many names stand side by side in the width of one panel.
const perPanel = 2

// legendRows is how many lines the names of all strategies take.
func legendRows(r *simulator.Report, panels int) int {
	columns := perPanel * panels
	return (len(r.Strategies) + columns - 1) / columns
}

// legend writes the title and, below it, what each colour stands for.
func legend(c draw.Canvas, r *simulator.Report, panels int) {
	text := plot.New().Title.TextStyle
	text.XAlign, text.YAlign = draw.XLeft, draw.YCenter
	text.Font.Size, text.Font.Variant = 13, "Sans"
	title := r.Scenario
	if r.About != "" {
		title += ": " + r.About
	}
	left := c.Min.X + 0.4*vg.Centimeter
	c.FillText(text, vg.Point{X: left, Y: c.Max.Y - titleHeight/2}, title)
	text.Font.Size = 10
	column := (c.Max.X - c.Min.X) / vg.Length(perPanel*panels)
	for i := range r.Strategies {
		x := left + column*vg.Length(i%(perPanel*panels))
		y := c.Max.Y - titleHeight - legendLine*(vg.Length(i/(perPanel*panels))+0.5)
		c.StrokeLine2(style(i), x, y, x+0.9*vg.Centimeter, y)
		c.FillText(text, vg.Point{X: x + 1.1*vg.Centimeter, Y: y}, r.Strategies[i].Label)
	}
}

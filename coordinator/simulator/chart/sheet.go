package chart

import (
	"fmt"
	"image/color"
	"io"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Size of the strips above all panels, and above a row of them.
const (
	margin      = 0.4 * vg.Centimeter
	legendLine  = 0.55 * vg.Centimeter
	titleHeight = 0.9 * vg.Centimeter
)

// perPanel is how many names stand side by side in the width of one panel.
const perPanel = 2

// sheet is what goes into one file: a title, what each line style stands for, and rows
// of panels, all of them of the same size and number.
type sheet struct {
	scenario, about string
	labels          []string // of style 0, 1 …
	rows            []panelRow
	width, height   vg.Length // of one panel
}

// panelRow is panels side by side, below a heading if there is one.
type panelRow struct {
	heading string
	panels  []*plot.Plot
}

// draw writes the sheet.
func (s sheet) draw(w io.Writer, f Format) error {
	width, below := s.width*vg.Length(len(s.rows[0].panels)), vg.Length(0)
	for _, row := range s.rows {
		below += s.heightOf(row)
	}
	height := titleHeight + legendLine*vg.Length(s.legendRows()) + below
	var canvas vg.CanvasWriterTo
	switch f {
	case SVG:
		canvas = vgsvg.New(width, height)
	case PNG:
		canvas = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(144),
			vgimg.UseBackgroundColor(color.White))}
	default:
		return fmt.Errorf("draw the chart of %s: no format is called %q; known are svg, png", s.scenario, f)
	}
	c := draw.New(canvas)
	if f == SVG {
		c.SetColor(color.White)
		c.Fill(c.Rectangle.Path())
	}
	s.legend(draw.Crop(c, 0, 0, below, 0))
	top := height - below // from the upper edge
	for _, row := range s.rows {
		next := top + s.heightOf(row)
		s.drawRow(draw.Crop(c, 0, 0, height-next, -top), row)
		top = next
	}
	if _, err := canvas.WriteTo(w); err != nil {
		return fmt.Errorf("write the chart of %s: %w", s.scenario, err)
	}
	return nil
}

func (s sheet) heightOf(row panelRow) vg.Length {
	if row.heading == "" {
		return s.height
	}
	return s.height + titleHeight
}

// drawRow draws a row into the whole of c.
func (s sheet) drawRow(c draw.Canvas, row panelRow) {
	if row.heading != "" {
		c.FillText(textStyle(12), vg.Point{X: c.Min.X + margin, Y: c.Max.Y - titleHeight/2}, row.heading)
		c = draw.Crop(c, 0, 0, 0, -titleHeight)
	}
	tiles := draw.Tiles{Rows: 1, Cols: len(row.panels), PadX: 0.6 * vg.Centimeter, PadLeft: 0.2 * vg.Centimeter,
		PadRight: 0.4 * vg.Centimeter, PadBottom: 0.2 * vg.Centimeter}
	for i, place := range plot.Align([][]*plot.Plot{row.panels}, tiles, c)[0] {
		row.panels[i].Draw(place)
	}
}

// legendColumns is how many names stand side by side.
func (s sheet) legendColumns() int { return perPanel * len(s.rows[0].panels) }

// legendRows is how many lines the names take.
func (s sheet) legendRows() int {
	return (len(s.labels) + s.legendColumns() - 1) / s.legendColumns()
}

// legend writes the title and, below it, what each colour stands for.
func (s sheet) legend(c draw.Canvas) {
	text := textStyle(13)
	title := s.scenario
	if s.about != "" {
		title += ": " + s.about
	}
	left := c.Min.X + margin
	c.FillText(text, vg.Point{X: left, Y: c.Max.Y - titleHeight/2}, title)
	text.Font.Size = 10
	columns := s.legendColumns()
	column := (c.Max.X - c.Min.X) / vg.Length(columns)
	for i, label := range s.labels {
		x := left + column*vg.Length(i%columns)
		y := c.Max.Y - titleHeight - legendLine*(vg.Length(i/columns)+0.5)
		c.StrokeLine2(style(i), x, y, x+0.9*vg.Centimeter, y)
		c.FillText(text, vg.Point{X: x + 1.1*vg.Centimeter, Y: y}, label)
	}
}

// textStyle is that of what stands beside the panels.
func textStyle(size vg.Length) draw.TextStyle {
	text := plot.New().Title.TextStyle
	text.XAlign, text.YAlign = draw.XLeft, draw.YCenter
	text.Font.Size, text.Font.Variant = size, "Sans"
	return text
}

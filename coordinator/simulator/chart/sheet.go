package chart

import (
	"fmt"
	"image/color"
	"io"
)

// colours are Okabe and Ito's, which people tell apart whatever colours they see;
// beyond them the dashes differ.
var colours = []color.RGBA{
	{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xcc, 0x79, 0xa7, 0xff},
	{0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff}, {0x00, 0x00, 0x00, 0xff},
}

// dashes tell apart what has the same colour, and lines that lie on each other.
var dashes = [][]float64{nil, {6, 3}, {2, 2}, {8, 3, 2, 3}, {12, 4}}

// style is the line of course i, or the label i of a sheet.
func style(i int, along ...point) line {
	return line{along, colours[i%len(colours)], 1.8, dashes[i%len(dashes)]}
}

// Size of the strips above all panels, and above a row of them.
const (
	margin      = 0.4 * centimeter
	legendLine  = 0.55 * centimeter
	titleHeight = 0.9 * centimeter
)

// perPanel is how many names stand side by side in the width of one panel.
const perPanel = 2

// sheet is what goes into one file: a title, what each line style stands for, and rows
// of panels, all of them of the same size and number.
type sheet struct {
	scenario, about string
	labels          []string // of style 0, 1 …
	rows            []panelRow
	width, height   float64 // of one panel
}

// panelRow is panels side by side, below a heading if there is one.
type panelRow struct {
	heading string
	panels  []panel
}

// write draws the sheet into w.
func (s sheet) write(w io.Writer, f Format) error {
	encode := map[Format]func(*drawing, io.Writer) error{SVG: (*drawing).svg, PNG: (*drawing).png}[f]
	if encode == nil {
		return fmt.Errorf("draw the chart of %s: no format is called %q; known are svg, png", s.scenario, f)
	}
	if err := encode(s.draw(), w); err != nil {
		return fmt.Errorf("write the chart of %s: %w", s.scenario, err)
	}
	return nil
}

func (s sheet) draw() *drawing {
	columns := perPanel * len(s.rows[0].panels)
	d := &drawing{width: s.width * float64(len(s.rows[0].panels))}
	title := s.scenario
	if s.about != "" {
		title += ": " + s.about
	}
	d.text(text{point{margin, titleHeight / 2}, title, 13, start})
	for i, label := range s.labels {
		x := margin + d.width/float64(columns)*float64(i%columns)
		y := titleHeight + legendLine*(float64(i/columns)+0.5)
		d.line(style(i, point{x, y}, point{x + 0.9*centimeter, y}))
		d.text(text{point{x + 1.1*centimeter, y}, label, 10, start})
	}
	y := titleHeight + legendLine*float64((len(s.labels)+columns-1)/columns)
	for _, row := range s.rows {
		if row.heading != "" {
			d.text(text{point{margin, y + titleHeight/2}, row.heading, 12, start})
			y += titleHeight
		}
		for i := range row.panels {
			row.panels[i].draw(d, box{s.width * float64(i), y, s.width, s.height})
		}
		y += s.height
	}
	d.height = y
	return d
}

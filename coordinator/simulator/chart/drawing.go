package chart

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image/color"
	"io"
	"strconv"
	"strings"
)

// drawing is what a file shows, in the order in which it is drawn, in points from the upper left corner.
type drawing struct {
	width, height float64
	shapes        []shape
}

// shape is one of fill, line and text.
type shape interface {
	svg(b *bytes.Buffer)
	png(p *picture) error
}

type (
	point struct{ x, y float64 }
	box   struct{ x, y, width, height float64 }

	fill struct {
		box    box
		colour color.RGBA
	}
	// line is drawn through all its points. dashes are the lengths of what is drawn and left out, in turn.
	line struct {
		points []point
		colour color.RGBA
		width  float64
		dashes []float64
	}
	// text stands at a point: beginning, middle or end of it in x, its middle in y.
	text struct {
		at     point
		words  string
		size   float64
		anchor anchor
	}
)

// anchor says which part of a text stands at its point.
type anchor float64

const (
	start  anchor = 0
	middle anchor = 0.5
	end    anchor = 1
)

func (d *drawing) fill(f fill) { d.shapes = append(d.shapes, f) }
func (d *drawing) line(l line) { d.shapes = append(d.shapes, l) }
func (d *drawing) text(t text) { d.shapes = append(d.shapes, t) }

// svg writes the drawing as SVG. Numbers have two decimals, so that they are the same on every machine.
func (d *drawing) svg(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%[1]spt\" height=\"%[2]spt\" "+
		"viewBox=\"0 0 %[1]s %[2]s\" font-family=\"sans-serif\">\n"+
		"<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
		number(d.width), number(d.height))
	for _, s := range d.shapes {
		s.svg(&b)
	}
	b.WriteString("</svg>\n")
	_, err := w.Write(b.Bytes())
	return err
}

func (f fill) svg(b *bytes.Buffer) {
	fmt.Fprintf(b, "<rect x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\" fill=\"%s\"/>\n",
		number(f.box.x), number(f.box.y), number(f.box.width), number(f.box.height), hex(f.colour))
}

func (l line) svg(b *bytes.Buffer) {
	b.WriteString("<polyline points=\"")
	for i, at := range l.points {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(number(at.x) + "," + number(at.y))
	}
	fmt.Fprintf(b, "\" fill=\"none\" stroke=\"%s\" stroke-width=\"%s\"", hex(l.colour), number(l.width))
	if l.dashes != nil {
		lengths := make([]string, len(l.dashes))
		for i, length := range l.dashes {
			lengths[i] = number(length)
		}
		fmt.Fprintf(b, " stroke-dasharray=\"%s\"", strings.Join(lengths, ","))
	}
	b.WriteString("/>\n")
}

func (t text) svg(b *bytes.Buffer) {
	fmt.Fprintf(b, "<text x=\"%s\" y=\"%s\" font-size=\"%s\" text-anchor=\"%s\" dominant-baseline=\"central\">",
		number(t.at.x), number(t.at.y), number(t.size),
		map[anchor]string{start: "start", middle: "middle", end: "end"}[t.anchor])
	_ = xml.EscapeText(b, []byte(t.words)) // a buffer takes all
	b.WriteString("</text>\n")
}

func number(x float64) string {
	s := strings.TrimRight(strconv.FormatFloat(x, 'f', 2, 64), "0")
	return strings.TrimSuffix(s, ".")
}

func hex(c color.RGBA) string { return fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B) }

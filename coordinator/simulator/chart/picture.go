package chart

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

// perPoint is how many dots of a PNG file make a point: 144 to an inch.
const perPoint = 2

// picture is a drawing in dots.
type picture struct {
	*image.RGBA
	font *opentype.Font
}

// png writes the drawing as PNG.
func (d *drawing) png(w io.Writer) error {
	size := image.Rect(0, 0, int(math.Round(d.width*perPoint)), int(math.Round(d.height*perPoint)))
	sans, err := opentype.Parse(goregular.TTF)
	if err != nil {
		return fmt.Errorf("read the font: %w", err)
	}
	p := &picture{image.NewRGBA(size), sans}
	draw.Draw(p.RGBA, size, image.White, image.Point{}, draw.Src)
	for _, s := range d.shapes {
		if err := s.png(p); err != nil {
			return err
		}
	}
	return png.Encode(w, p.RGBA)
}

// polygons fills areas that all run around in the same direction. Where they overlap they are filled once.
func (p *picture) polygons(colour color.RGBA, areas ...[]point) {
	var in image.Rectangle // of dots
	for _, area := range areas {
		for _, at := range area {
			x, y := int(math.Floor(at.x*perPoint)), int(math.Floor(at.y*perPoint))
			in = in.Union(image.Rect(x, y, x+1, y+1))
		}
	}
	r := vector.NewRasterizer(in.Dx(), in.Dy())
	for _, area := range areas {
		for i, at := range area {
			x, y := float32(at.x*perPoint)-float32(in.Min.X), float32(at.y*perPoint)-float32(in.Min.Y)
			if i == 0 {
				r.MoveTo(x, y)
			} else {
				r.LineTo(x, y)
			}
		}
		r.ClosePath()
	}
	r.Draw(p.RGBA, in, image.NewUniform(colour), image.Point{})
}

func (f fill) png(p *picture) error {
	p.polygons(f.colour, rectangle(f.box))
	return nil
}

func (l line) png(p *picture) error {
	var areas [][]point
	for _, dash := range l.cut() {
		from, to, half := dash[0], dash[1], l.width/2
		length := math.Hypot(to.x-from.x, to.y-from.y)
		if length == 0 {
			continue
		}
		x, y := half*(to.y-from.y)/length, -half*(to.x-from.x)/length // across the line
		areas = append(areas, []point{{from.x + x, from.y + y}, {to.x + x, to.y + y}, {to.x - x, to.y - y},
			{from.x - x, from.y - y}})
		if l.dashes == nil { // the corner
			areas = append(areas, rectangle(box{to.x - half, to.y - half, l.width, l.width}))
		}
	}
	p.polygons(l.colour, areas...)
	return nil
}

// cut is the straight parts of the line that are drawn.
func (l line) cut() [][2]point {
	var parts [][2]point
	dash, left := 0, math.Inf(1) // of this dash
	if l.dashes != nil {
		left = l.dashes[0]
	}
	for i := 1; i < len(l.points); i++ {
		from, to := l.points[i-1], l.points[i]
		for length := math.Hypot(to.x-from.x, to.y-from.y); length > 0; length = math.Hypot(to.x-from.x, to.y-from.y) {
			next := to
			if left < length {
				next = point{from.x + (to.x-from.x)*left/length, from.y + (to.y-from.y)*left/length}
			}
			if dash%2 == 0 {
				parts = append(parts, [2]point{from, next})
			}
			if left > length {
				left -= length
				break
			}
			dash++
			from, left = next, l.dashes[dash%len(l.dashes)]
		}
	}
	return parts
}

// rectangle is a box as an area, which runs around as the parts of lines do.
func rectangle(b box) []point {
	return []point{{b.x, b.y}, {b.x + b.width, b.y}, {b.x + b.width, b.y + b.height}, {b.x, b.y + b.height}}
}

func (t text) png(p *picture) error {
	face, err := opentype.NewFace(p.font, &opentype.FaceOptions{Size: t.size * perPoint, DPI: 72,
		Hinting: font.HintingFull})
	if err != nil {
		return fmt.Errorf("write in size %g: %w", t.size, err)
	}
	d := font.Drawer{Dst: p.RGBA, Src: image.Black, Face: face}
	shift := float64(d.MeasureString(t.words)) / 64 * float64(t.anchor)
	d.Dot = fixed.Point26_6{
		X: fixed.Int26_6((t.at.x*perPoint - shift) * 64),
		Y: fixed.Int26_6((t.at.y + 0.35*t.size) * perPoint * 64), // the base line is a third of the size below the middle
	}
	d.DrawString(t.words)
	return nil
}

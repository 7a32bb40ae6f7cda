package chart

import (
	"image/color"
	"math"
	"strconv"
)

// panel is one diagram: courses over an x axis, or bars beside each other.
type panel struct {
	title, xLabel, yLabel string
	x, y                  axis
	courses               [][]point // course i in style i; in the axes' units
	bars                  []bars
}

// bars are those of one name: bar i in colour i, in the units of the y axis.
type bars struct {
	name    string
	heights []float64
}

// Room in a panel beside its axes: for numbers on the left, for title and label above, for numbers and label below.
const (
	roomLeft   = 1.3 * centimeter
	roomRight  = 0.6 * centimeter
	roomAbove  = 1.2 * centimeter
	roomBelow  = 1.1 * centimeter
	tickLength = 3
)

var (
	black = color.RGBA{A: 0xff}
	grey  = color.RGBA{0xd8, 0xd8, 0xd8, 0xff}
)

func (p *panel) draw(d *drawing, b box) {
	in := box{b.x + roomLeft, b.y + roomAbove, b.width - roomLeft - roomRight, b.height - roomAbove - roomBelow}
	right, bottom := in.x+in.width, in.y+in.height
	d.text(text{point{in.x + in.width/2, b.y + 0.35*centimeter}, p.title, 11, middle})
	d.text(text{point{b.x + 0.2*centimeter, b.y + 0.85*centimeter}, p.yLabel, 10, start})
	d.text(text{point{in.x + in.width/2, bottom + 0.85*centimeter}, p.xLabel, 10, middle})
	for _, t := range p.y.ticks() {
		y := bottom - in.height*p.y.part(t)
		d.line(line{[]point{{in.x - tickLength, y}, {in.x, y}}, black, 0.5, nil})
		d.line(line{[]point{{in.x, y}, {right, y}}, grey, 0.5, nil})
		d.text(text{point{in.x - 2*tickLength, y}, label(t), 9, end})
	}
	if p.bars != nil {
		p.drawBars(d, in)
	} else {
		for _, t := range p.x.ticks() {
			x := in.x + in.width*p.x.part(t)
			d.line(line{[]point{{x, bottom}, {x, bottom + tickLength}}, black, 0.5, nil})
			d.line(line{[]point{{x, in.y}, {x, bottom}}, grey, 0.5, nil})
			d.text(text{point{x, bottom + 0.35*centimeter}, label(t), 9, middle})
		}
	}
	d.line(line{[]point{{in.x, in.y}, {in.x, bottom}, {right, bottom}}, black, 0.5, nil})
	for i, course := range p.courses {
		along := make([]point, len(course))
		for j, at := range course {
			along[j] = point{in.x + in.width*p.x.part(at.x), bottom - in.height*p.y.part(at.y)}
		}
		d.line(style(i, along...))
	}
}

func (p *panel) drawBars(d *drawing, in box) {
	for g, group := range p.bars {
		n := len(group.heights)
		width := in.width / float64(len(p.bars)*(n+1))
		x := in.x + width*(float64(g*(n+1))+0.5)
		for i, height := range group.heights {
			h := in.height * p.y.part(height)
			d.fill(fill{box{x + width*float64(i), in.y + in.height - h, width, h}, colours[i%len(colours)]})
		}
		d.text(text{point{x + width*float64(n)/2, in.y + in.height + 0.35*centimeter}, group.name, 9, middle})
	}
}

// axis is the range that is drawn; log: by its logarithm.
type axis struct {
	lo, hi float64
	log    bool
}

// part is where x is: 0 at the beginning of the axis, 1 at its end.
func (a axis) part(x float64) float64 {
	if a.log {
		return math.Log(x/a.lo) / math.Log(a.hi/a.lo)
	}
	return (x - a.lo) / (a.hi - a.lo)
}

// ticks are every power of ten if the axis is one of logarithms; else multiples of 1, 2 or 5 times one.
func (a axis) ticks() []float64 {
	var ticks []float64
	if a.log {
		for e := math.Round(math.Log10(a.lo)); e <= math.Round(math.Log10(a.hi)); e++ {
			ticks = append(ticks, math.Pow(10, e))
		}
		return ticks
	}
	step := math.Pow(10, math.Floor(math.Log10((a.hi-a.lo)/4)))
	for _, times := range []float64{5, 2} {
		if step*times <= (a.hi-a.lo)/4 {
			step *= times
			break
		}
	}
	for i := math.Ceil(a.lo / step); i*step <= a.hi; i++ {
		ticks = append(ticks, i*step)
	}
	return ticks
}

// label is a tick's number, without the digits that sums of floating point leave.
func label(tick float64) string {
	return strconv.FormatFloat(math.Round(tick*1e9)/1e9, 'f', -1, 64)
}

package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"strings"
	"testing"

	"taskbus/coordinator/simulator"
	"taskbus/coordinator/simulator/pulling"
)

// report is one of two strategies and two groups, in round numbers.
func report() *simulator.Report {
	strategy := func(label string, wait, regret, share float64) simulator.Performance {
		return simulator.Performance{
			Strategy: label, Label: label,
			WaitQuantiles: []float64{0, wait / 2, wait}, RegretCourse: []float64{regret / 2, regret},
			RewardCourse: []float64{regret, regret},
			Groups: []simulator.GroupShare{
				{Group: "good", Agents: 3, Share: simulator.Value{Mean: share}},
				{Group: "poor & small", Agents: 1, Share: simulator.Value{Mean: 1 - share}},
			},
		}
	}
	return &simulator.Report{
		Scenario: "made up", About: "good <and> poor", Duration: 100, WarmUp: 10,
		Strategies: []simulator.Performance{strategy("random", 20, 30, 0.5), strategy("best", 1, 2, 0.9)},
	}
}

func drawn(t *testing.T, r *simulator.Report, f Format) []byte {
	t.Helper()
	var first, second bytes.Buffer
	for _, b := range []*bytes.Buffer{&first, &second} {
		if err := Draw(b, r, f); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Errorf("%s: the second time it is different", f)
	}
	return first.Bytes()
}

// texts are the words of an SVG file, which must be XML whatever the labels are.
func texts(t *testing.T, svg []byte) string {
	t.Helper()
	var b strings.Builder
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return b.String()
		}
		if err != nil {
			t.Fatalf("no XML: %v", err)
		}
		if words, ok := token.(xml.CharData); ok {
			b.Write(words)
		}
	}
}

func TestSVGSaysWhatItShows(t *testing.T) {
	words := texts(t, drawn(t, report(), SVG))
	for _, want := range []string{
		"made up: good <and> poor", "random", "best", // title and legend
		"tasks that waited at most so long", "successes (expected)", "who got the work", "good ×3", "poor & small",
	} {
		if !strings.Contains(words, want) {
			t.Errorf("the chart does not say %q", want)
		}
	}
}

// A panel that would show nothing is left out: no waits, one group; and where
// agents succeed alike, regret is that of the reward rate.
func TestPanelsThatSayNothingAreLeftOut(t *testing.T) {
	r := report()
	for i := range r.Strategies {
		s := &r.Strategies[i]
		s.WaitQuantiles, s.Groups, s.RegretCourse = []float64{0, 0}, s.Groups[:1], []float64{0, 0}
	}
	words := texts(t, drawn(t, r, SVG))
	if strings.Contains(words, "waited") || strings.Contains(words, "who got the work") {
		t.Error("an empty panel is drawn")
	}
	if !strings.Contains(words, "best reward rate") {
		t.Error("the regret is not that of the reward rate")
	}
}

func TestPNG(t *testing.T) {
	picture, err := png.Decode(bytes.NewReader(drawn(t, report(), PNG)))
	if err != nil {
		t.Fatal(err)
	}
	// Three panels of 13 cm at 144 dots per inch: 39/2.54·144 = 2211.
	if width := picture.Bounds().Dx(); width < 2205 || width > 2215 {
		t.Errorf("%d dots wide, want about 2211", width)
	}
	if r, g, b, _ := picture.At(1, picture.Bounds().Dy()-1).RGBA(); r+g+b != 3*0xffff {
		t.Error("the ground is not white")
	}
}

// pulled is a report of two agents under one load and two controllers.
func pulled() *pulling.Report {
	controller := func(label string, fast, slow float64) pulling.Performance {
		return pulling.Performance{Label: label, Agents: []pulling.AgentPerformance{
			{DrainCourse: []float64{0, fast}}, {DrainCourse: []float64{0, slow}},
		}}
	}
	return &pulling.Report{
		Scenario: "made up", About: "fast <and> slow", Duration: 100,
		Agents: []pulling.Agent{{Name: "fast", Capacity: 16}, {Name: "slow", Capacity: 0.5}},
		Loads: []pulling.Load{{Label: "a load", Controllers: []pulling.Performance{controller("fixed", 0.1, 2000),
			controller("equal", 1, 1)}}},
	}
}

func TestPullingSaysWhatItShows(t *testing.T) {
	var first, second bytes.Buffer
	for _, b := range []*bytes.Buffer{&first, &second} {
		if err := DrawPulling(b, pulled(), SVG); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the second time it is different")
	}
	words := texts(t, first.Bytes())
	for _, want := range []string{
		"made up: fast <and> slow", "fast, 16 items/s", "slow, 0.5 items/s", "a load", "fixed", "equal", "drain time, s",
		"10000", // the axis of all ends above the longest drain time of any
	} {
		if !strings.Contains(words, want) {
			t.Errorf("the chart does not say %q", want)
		}
	}
	if strings.Count(words, "10000") != 2 {
		t.Error("the two panels do not have the same scale")
	}
}

func TestUnknownFormat(t *testing.T) {
	if err := DrawPulling(io.Discard, pulled(), "gif"); err == nil ||
		!strings.Contains(err.Error(), "known are svg, png") {
		t.Errorf("error %v", err)
	}
	if err := Draw(io.Discard, report(), "gif"); err == nil || !strings.Contains(err.Error(), "known are svg, png") {
		t.Errorf("error %v", err)
	}
}

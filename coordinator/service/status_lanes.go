package service

import (
	"cmp"
	"slices"

	"taskbus/coordinator"
	"taskbus/coordinator/bus"
	"taskbus/coordinator/httpapi"
)

// maxLanesShown bounds the lanes in /status and the values of the label `lane`: those with
// most in them are shown.
const maxLanesShown = 100

// laneRest is the value of the label `lane` for all lanes beyond the bound.
const laneRest = "(others)"

// shownLanes returns the lanes with most in them, and what is in all others.
func shownLanes(snap *coordinator.Snapshot) (shown []coordinator.LaneSnapshot, rest int) {
	all := slices.Clone(snap.Lanes)
	slices.SortStableFunc(all, func(a, b coordinator.LaneSnapshot) int {
		return cmp.Or(cmp.Compare(b.Ready+b.Waiting, a.Ready+a.Waiting), cmp.Compare(a.Lane, b.Lane))
	})
	n := min(len(all), maxLanesShown)
	for _, l := range all[n:] {
		rest += l.Ready
	}
	return all[:n], rest
}

func laneStatus(snap coordinator.Snapshot) []httpapi.Lane {
	shown, _ := shownLanes(&snap)
	lanes := make([]httpapi.Lane, len(shown))
	for i, l := range shown {
		lanes[i] = httpapi.Lane{
			Name: bus.LaneQueue(l.Lane).Name, Ready: l.Ready, Waiting: l.Waiting, Moving: l.Moving, Read: l.Read,
			Orphan: l.Orphan,
		}
	}
	return lanes
}

// collectLanes has what waits in lanes for a scrape.
func collectLanes(snap *coordinator.Snapshot, emit gauges) {
	shown, rest := shownLanes(snap)
	read := 0
	for _, l := range snap.Lanes {
		if l.Read {
			read++
		}
	}
	for _, l := range shown {
		emit(descLane, float64(l.Ready), l.Lane)
	}
	if rest > 0 {
		emit(descLane, float64(rest), laneRest)
	}
	emit(descLanesRead, float64(read))
	emit(descMoving, float64(snap.Moving))
}

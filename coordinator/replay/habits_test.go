package replay

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"taskbus/coordinator"
)

// ended makes facts of dispatches that ended, so many of each.
type ended struct {
	agent  coordinator.AgentID
	kind   string
	count  int
	manner manner
	after  time.Duration
}

func factsOf(list ...ended) *facts {
	f := newFacts(0, epoch)
	for _, e := range list {
		for range e.count {
			f.made = append(f.made, &dispatch{
				task:  &coordinator.Task{ID: "t", Type: e.kind},
				agent: e.agent, at: epoch, end: &ending{agent: e.agent, manner: e.manner, after: e.after, work: e.after},
			})
		}
	}
	return f
}

// drawn draws how 4,000 tasks of a type would end on an agent: the share of them that
// fail, and the mean of the seconds that the others take.
func drawn(h *habits, agent coordinator.AgentID, kind string) (failing, mean float64, from [numSources]int) {
	const n = 4000
	done := 0.0
	for i := range n {
		e, source := h.ending(&coordinator.Task{ID: coordinator.TaskID(fmt.Sprint("task-", i)), Type: kind}, agent, 1)
		from[source]++
		if e.manner == failed {
			failing += 1.0 / n
			continue
		}
		mean += e.after.Seconds()
		done++
	}
	return failing, mean / done, from
}

func TestTasksEndAsTheyUsuallyDo(t *testing.T) {
	f := factsOf(
		ended{"fast", "x", 90, succeeded, time.Second}, ended{"fast", "x", 10, failed, time.Second},
		ended{"slow", "x", 50, succeeded, 3 * time.Second}, ended{"slow", "x", 50, failed, time.Second},
		ended{"slow", "y", 100, succeeded, 30 * time.Second},
		ended{"fast", "z", 5, withdrawn, time.Hour}, ended{"slow", "x", 5, unfinished, 0},
		ended{"slow", "x", 5, takenBack, time.Hour},
	)
	h := f.habits()
	// Of the fleet x takes (90·1 + 50·3)/140 = 1.714 s, y 30 s; a task takes
	// (90 + 150 + 3000)/240 = 13.5 s, and three such tasks stand for what is not known.
	// fast: (90 + 40.5)/(90·1.714 + 40.5) = 0.670; slow: (3150 + 40.5)/(50·1.714 + 3000 + 40.5) = 1.021.
	const fast, slow = 0.670, 1.021
	for _, p := range []struct {
		agent coordinator.AgentID
		want  float64
	}{{"fast", fast}, {"slow", slow}, {"new", 1}} {
		if got := h.paceOf(p.agent); math.Abs(got-p.want) > 0.001 {
			t.Errorf("pace of %s: %.4f, want %.3f", p.agent, got, p.want)
		}
	}
	for _, c := range []struct {
		agent         coordinator.AgentID
		kind          string
		failing, mean float64
		usual         source
	}{
		// 100 of its own count beside 3 of all 200: 0.971·0.10 + 0.029·0.30 = 0.106.
		{"fast", "x", 0.106, 1.03, itsOwn},
		{"slow", "x", 0.494, 2.97, itsOwn},
		// No agent but slow has ever done y: its times, at the pace of fast.
		{"fast", "y", 0, 30 * fast / slow, ofOthers},
		{"slow", "y", 0, 30, itsOwn},
		// An agent that never did anything does x like the fleet: (10 + 50)/200 fail, and
		// the others take (90·1/fast + 50·3/slow)/140 s.
		{"new", "x", 0.3, (90/fast + 150/slow) / 140, ofOthers},
		// No agent has ever done w: it is like any task.
		{"new", "w", 0.2, (90/fast + 150/slow + 3000/slow) / 240, ofAnyType},
	} {
		t.Run(string(c.agent)+" "+c.kind, func(t *testing.T) {
			failing, mean, from := drawn(h, c.agent, c.kind)
			if math.Abs(failing-c.failing) > 0.03 || math.Abs(mean-c.mean) > 0.06*c.mean {
				t.Errorf("%.3f of the tasks fail, the others take %.2f s; want %.3f and %.2f s", failing, mean, c.failing, c.mean)
			}
			if slices.Max(from[:]) != from[c.usual] {
				t.Errorf("endings come from %v", from)
			}
		})
	}
}

func TestDrawsRepeat(t *testing.T) {
	h := factsOf(ended{"a", "x", 20, succeeded, time.Second}, ended{"a", "x", 20, failed, 2 * time.Second}).habits()
	manners := make(map[manner]bool)
	for i := range 50 {
		task := &coordinator.Task{ID: coordinator.TaskID(fmt.Sprint(i)), Type: "x"}
		one, _ := h.ending(task, "a", 1)
		two, _ := h.ending(task, "a", 1)
		if one != two {
			t.Fatalf("task %d ended %+v and %+v", i, one, two)
		}
		manners[one.manner] = true
	}
	if len(manners) != 2 {
		t.Errorf("all tasks end alike: %v", manners)
	}
}

func TestAbsences(t *testing.T) {
	at := func(s float64) time.Time { return epoch.Add(time.Duration(s * float64(time.Second))) }
	for _, c := range []struct {
		name    string
		reports []beat
		downs   []span
		want    []span
	}{
		{"a heartbeat every 5 s", []beat{{at: at(0)}, {at: at(5)}, {at: at(10)}, {at: at(15)}}, nil, nil},
		{"two are missing, which is nothing", []beat{{at: at(0)}, {at: at(5)}, {at: at(20)}, {at: at(25)}}, nil, nil},
		{"silent for 20 s: gone when the next was due", []beat{{at: at(0)}, {at: at(5)}, {at: at(10)}, {at: at(30)}}, nil,
			[]span{{at(15), at(30)}}},
		{"nobody could hear it for 15 s of them", []beat{{at: at(0)}, {at: at(5)}, {at: at(10)}, {at: at(30)}},
			[]span{{at(12), at(27)}}, nil},
		{"it says that it goes", []beat{{at: at(0)}, {at: at(5), offline: true}, {at: at(9)}, {at: at(14)}, {at: at(19)}},
			nil, []span{{at(5), at(9)}}},
		{"and says so twice", []beat{{at: at(0)}, {at(5), true}, {at(10), true}, {at: at(15)}}, nil, []span{{at(5), at(15)}}},
		{"silent until the end", []beat{{at: at(0)}, {at: at(5)}, {at: at(10)}}, nil, []span{{at(15), at(40).Add(1)}}},
		{"one heartbeat tells nothing", []beat{{at: at(0)}}, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			until := at(40)
			if c.want == nil || c.name != "silent until the end" {
				until = c.reports[len(c.reports)-1].at.Add(time.Second)
			}
			f := newFacts(0, until)
			f.downs = c.downs
			if got := f.absences(&agentFacts{reports: c.reports}); !slices.Equal(got, c.want) {
				t.Errorf("absent %v, want %v", got, c.want)
			}
		})
	}
}

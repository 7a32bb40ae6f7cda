package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"taskbus/coordinator"
	"taskbus/coordinator/engine"
)

// keyModel is what one key has left, counted by hand.
type keyModel struct{ seats, calls int }

func (k keyModel) room() bool { return k.seats > 0 && k.calls > 0 }

// A call that names a provider is never refused while one of its keys has a seat and a call of its
// day left, and never goes to one that has not; nor is it told that it need not ask again while a key
// may have room for it one day.
func TestCallFindsTheKeyThatHasRoom(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		file, left := "groups: [{id: team}]\nproviders:\n", map[string]keyModel{}
		for i := range rapid.IntRange(1, 4).Draw(rt, "keys") {
			k := keyModel{rapid.IntRange(0, 3).Draw(rt, "seats"), rapid.IntRange(0, 6).Draw(rt, "calls a day")}
			pool := fmt.Sprintf("openai@k%d", i)
			left[pool] = k
			file += fmt.Sprintf(
				"  - {provider: openai, key: k%d, limits: {concurrency: {amount: %d}, requests: {amount: %d, per: day}}}\n", i,
				k.seats, k.calls)
		}
		atMost := maps.Clone(left)
		r := calls(t, file)
		stands := map[string]string{} // pools by id
		for i := range rapid.IntRange(1, 30).Draw(rt, "steps") {
			if ids := slices.Sorted(maps.Keys(stands)); len(ids) > 0 && rapid.IntRange(0, 2).Draw(rt, "one ends at 0") == 0 {
				id := rapid.SampledFrom(ids).Draw(rt, "which")
				op := rapid.SampledFrom([]coordinator.CallOp{coordinator.CallSettle, coordinator.CallRelease}).Draw(rt, "how")
				k := left[stands[id]]
				if k.seats++; op == coordinator.CallRelease { // nothing was used
					k.calls++
				}
				a := r.state(tokens(op, id, 1, 1), coordinator.CallGranted)
				if a.Pool != stands[id] {
					rt.Fatalf("%s stands in %s and ends in %s", id, stands[id], a.Pool)
				}
				left[stands[id]] = k
				delete(stands, id)
				continue
			}
			some, ever := false, false
			for pool, k := range left { // order does not matter
				some, ever = some || k.room(), ever || atMost[pool].room()
			}
			id := fmt.Sprint("c", i)
			a := r.ask(toOpenAI(coordinator.CallReserve, id, 1, 1))[0]
			switch k := left[a.Pool]; {
			case (a.State == coordinator.CallGranted) != some, (a.State != coordinator.CallNever) != ever:
				rt.Fatalf("state %s; there is room: %v, ever: %v; left %v\n%s", a.State, some, ever, left, file)
			case some && (!k.room() || !strings.HasPrefix(a.Provider, "openai@")):
				rt.Fatalf("it goes to %s, which has %+v left", a.Provider, k)
			case some:
				left[a.Pool], stands[id] = keyModel{k.seats - 1, k.calls - 1}, a.Pool
			}
		}
		engine.CheckIndexes(t, r.Engine)
	})
}

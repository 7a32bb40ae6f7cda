package main

import (
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"taskbus/config"
	"taskbus/coordinator"
	"taskbus/coordinator/bus"
)

func TestDetectionFile(t *testing.T) {
	all := victims()
	cfg, err := config.Parse(detectionFile(all), "agents.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := slices.Sorted(slices.Values(cfg.AgentQueues())), slices.Sorted(slices.Values(detectionQueues())); !slices.Equal(got, want) {
		t.Errorf("the service would use other queues than we count:\n%q, want\n%q", got, want)
	}
	policy := cfg.Policy()
	if policy.Settings.StaleAfter != staleSeconds*time.Second {
		t.Errorf("silent after %s", policy.Settings.StaleAfter)
	}
	room := 0
	for _, v := range all {
		route := policy.Routes["for-"+v.id]
		if !slices.Equal(route.Preferred, []coordinator.AgentID{coordinator.AgentID(v.id)}) {
			t.Errorf("tasks of %s are for %q", v.id, route.Preferred)
		}
		var able []coordinator.AgentID
		for _, a := range policy.Agents {
			if !slices.ContainsFunc(route.Required, func(need string) bool { return !slices.Contains(a.Capabilities, need) }) {
				able = append(able, a.ID)
			}
		}
		slices.Sort(able)
		if want := slices.Sorted(slices.Values([]coordinator.AgentID{coordinator.AgentID(v.id), rescuer})); !slices.Equal(able, want) {
			t.Errorf("tasks of %s can be done by %q, want %q", v.id, able, want)
		}
		room += victimSlots
	}
	if room > rescueSlots {
		t.Errorf("the rescuer has %d slots for %d tasks", rescueSlots, room)
	}
}

func TestVictimsShareNoTask(t *testing.T) {
	owner := make(map[int]string)
	for _, v := range victims() {
		for n := v.first; n < v.first+victimSlots; n++ {
			if owner[n] != "" {
				t.Errorf("task %d belongs to %s and %s", n, owner[n], v.id)
			}
			owner[n] = v.id
		}
	}
	if len(owner) != len(departures)*detectionRepeats*victimSlots {
		t.Errorf("%d tasks", len(owner))
	}
}

func TestWitnessCountsTasksByVictim(t *testing.T) {
	all := victims()
	w := &witness{victims: all, ended: make(map[int]bool), last: make(map[string]time.Time)}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	hear := func(second int, task int, kind string) {
		w.result(amqp.Delivery{MessageId: taskID(task) + ".2", Type: kind}, at.Add(time.Duration(second)*time.Second))
	}
	hear(1, 0, bus.StreamResult)
	hear(2, 0, bus.StreamResult) // counted once
	hear(3, victimSlots-1, bus.StreamResult)
	hear(4, victimSlots, bus.StreamResult) // the next victim's
	hear(5, 1, "coordinator.fence")
	if got := [...]int{w.done(all[0]), w.done(all[1]), w.done(all[2])}; got != [...]int{2, 1, 0} {
		t.Errorf("done: %d, want 2, 1 and 0", got)
	}
	if got := w.last[all[0].id]; !got.Equal(at.Add(3 * time.Second)) {
		t.Errorf("the last of the first victim came at %s, want second 3", got)
	}
}

package balance

import (
	"math"
	"testing"
	"time"

	"taskbus/coordinator"
	"taskbus/coordinator/capacity"
)

func TestHealthOf(t *testing.T) {
	tests := []struct {
		pending  int
		capacity float64
		want     coordinator.Health
	}{
		{0, 16, coordinator.Healthy},
		{80, 4, coordinator.Healthy},            // 20 s; BALANCING's diagram calls it overloaded
		{20, 8, coordinator.Healthy},            // 2.5 s; BALANCING's diagram calls it busy
		{119, 4, coordinator.Healthy},           // 29.75 s
		{120, 4, coordinator.BusyHealth},        // 30 s
		{239, 4, coordinator.BusyHealth},        // 59.75 s
		{240, 4, coordinator.OverloadedHealth},  // 60 s
		{15, 0, coordinator.BusyHealth},         // 30 s at the default 0.5
		{1, 0.05, coordinator.Healthy},          // 20 s
		{3, 0.05, coordinator.OverloadedHealth}, // 60 s; a floor of 1.0 would hide it
		{1, math.NaN(), coordinator.Healthy},
		{math.MaxInt, 1e-300, coordinator.OverloadedHealth},
		{-5, 1, coordinator.Healthy},
	}
	for _, tt := range tests {
		if got := HealthOf(tt.pending, tt.capacity); got != tt.want {
			t.Errorf("%d at %v/s: %v, want %v", tt.pending, tt.capacity, got, tt.want)
		}
	}
}

func TestPresenceOf(t *testing.T) {
	for silence, want := range map[time.Duration]Presence{
		0: Alive, 30*time.Second - 1: Alive, 30 * time.Second: Suspect, 90*time.Second - 1: Suspect, 90 * time.Second: Dead,
		time.Hour: Dead,
	} {
		if got := PresenceOf(silence); got != want {
			t.Errorf("%v: %v, want %v", silence, got, want)
		}
	}
}

// TestNewEstimator: the window is capacity-window-size, 60 unless it says otherwise.
func TestNewEstimator(t *testing.T) {
	for size, want := range map[int]capacity.Estimator{0: capacity.New(60), 60: capacity.New(60), 5: capacity.New(5)} {
		e, err := NewEstimator(Config{LoadBalancing: LoadBalancing{CapacityWindowSize: size}})
		if err != nil || *e != want {
			t.Errorf("capacity-window-size %d: %+v, %v", size, e, err)
		}
	}
}

package background

import "time"

// Every does something again and again until it says that it is enough, or the session has ended. A
// round that takes longer puts the next one off; they never overlap.
func Every(ended <-chan struct{}, period time.Duration, round func() (again bool)) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ended:
			return
		case <-ticker.C:
		}
		if !round() {
			return
		}
	}
}

// Pause reports whether the session still stands after that time.
func Pause(ended <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ended:
		return false
	case <-timer.C:
		return true
	}
}

//go:build !failpoint

package failpoint

import "time"

// Hit marks a place in the program. Without the build tag it does nothing.
func Hit(Point) {}

// Task marks the handling of one task. Without the build tag it does nothing.
func Task(string) {}

// Ahead is how far the clock is to be ahead. Without the build tag it is not.
func Ahead() time.Duration { return 0 }

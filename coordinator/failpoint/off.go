//go:build !failpoint

package failpoint

// Hit marks a place in the program. Without the build tag it does nothing.
func Hit(Point) {}

// Task marks the handling of one task. Without the build tag it does nothing.
func Task(string) {}

//go:build !race

package integration

// raceDetector: the coordinator is built as the tests are.
const raceDetector = false

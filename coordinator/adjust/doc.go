// Package adjust answers: what does a day's use say about the weights and limits of tomorrow?
//
// Two rules, both off unless quotas.yaml has them (adjustment). Idle: who has used little of what
// was his own on several days in a row loses a point of weight, and gets it back, a point a day,
// once he uses it again (FAIR-SHARE, lecture four: under 10 % for three days, one point). Slow:
// whose answers take long gets a few percent more of his own limits, day by day up to a bound, and
// gives them back day by day once he is fast.
//
// # Its parts
//
//	idle.go   the rule about use
//	slow.go   the rule about answers
//	period.go what is somebody's own for a day
//
// # What it must never do
//
// It changes nothing: it is given what was, and says what should be. No clock, no state, no
// floating point: equal days give equal answers. A rule never goes beyond its bounds, and never
// changes anything more than once a day.
package adjust

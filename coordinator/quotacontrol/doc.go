// Package quotacontrol answers "what changes quotas.yaml at this moment, and until when?"
//
// Controls are standing changes: made by people, or by two rules at the end of a day, both off unless
// quotas.yaml has them (adjustment). Idle: a group or agent that has used little of its own on several
// days in a row loses a point of weight, and gets it back, a point a day, once it uses it again
// (FAIR-SHARE, lecture four: under 10 % for three days, one point). Slow: one with answers that take long
// gets a few percent more of its own limits, day by day up to a bound, and gives them back day by day.
//
//	controls.go  what stands, and how far the policy of an engine that follows is behind it
//	days.go      what is used on the day at hand
//	rules.go     the end of a day: what rules change, as controls
//	judge.go     what one rule says of one group or agent
//
// # What it must never do
//
// No clock, no timer, no file, no floating point: it is given the time, and equal days give equal
// answers. It records nothing and emits nothing; its caller does, with the values that it returns. Of
// the ledger it changes only what a correction says. A rule never goes beyond its bounds, and never
// changes anything more than once a day.
package quotacontrol

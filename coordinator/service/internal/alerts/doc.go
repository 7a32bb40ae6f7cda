// Package alerts answers: which budgets are people to hear of, and in which words?
//
// It words events about quotas, and finds in forecasts the budgets that will not last and were not published yet.
//
// # What it must never do
//
// It publishes nothing, asks no engine, and computes no forecast (package usage does).
package alerts

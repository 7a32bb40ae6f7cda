// Package usage computes history, forecast and reconciliation of LLM usage.
//
// That is how much was used, by which tenant, on which day, and what it cost; how much it will be by the end of the
// period, and whether the provider's bill agrees.
//
// It is a projection of the journal. [Projection] folds the journal's messages into changes
// of rows ([Row]: a day, group, agent, provider and model), in batches that begin where the
// one before has ended, so that they can be stored exactly once (package store). [Forecast],
// [Costs] and [Reconcile] are arithmetic over rows; [Forecasts] are those of all budgets of the quota
// trees, and [BudgetForecast.Alarming] says which of them are published.
//
// # What is counted, and when
//
// A reservation counts when it ends, for the day on which it was made, in the time zone of
// the quotas: the day whose budgets it was charged to. What it has used is what it was
// settled at. One whose making the journal no longer holds counts for the day it ended on, and for no
// tenant in particular: group, agent, provider and model are empty. One that has expired counts as such;
// should it be settled yet, the record of that says whose it was.
//
// # What it must never do
//
// No I/O, no clock, no goroutine. Nothing depends on the order of a map, nor on where the
// journal is cut into batches. It never guesses silently: what is missing in the journal is a
// [Gap], what has no owner is reported as such.
package usage

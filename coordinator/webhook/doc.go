// Package webhook answers: has the receiver that an operator has named heard of this event?
//
// It sends events over HTTP, signed as Standard Webhooks 1.0 say (or as text that Slack shows), and
// tries again until the receiver has taken them, or there is no use in it. [Sender.Send] only puts
// an event down; [Sender.Run] does the rest: a few tries at a time, of one subject one after another.
//
// # What a receiver may rely on
//
// An event has one id, however often it is tried: a receiver that has it already may leave out a second one. It
// is signed anew for each try, with the time of that try, over id, time and body. Events may come in
// another order than they were sent in: one that was refused for the moment does not hold up others.
//
// # What it must never do
//
// It never blocks the sender. It never holds more than a bounded number of events: the oldest goes.
// It follows no redirect. It never reveals the URL, of which the path may be a secret, nor a key, nor
// what it sends: logs have the host alone. What it holds dies with the process.
package webhook

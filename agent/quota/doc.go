// Package quota is the client of programs that call LLM providers.
//
// It asks the coordinators whether there is quota for a call, and reports what the call has used.
//
// A [Client] asks the coordinators (docs/howto/calls.md). A [Transport] is an
// http.RoundTripper around the one that reaches the provider; with it the program stays as it is:
//
//	client, err := quota.New(quota.Options{URLs: []string{"http://127.0.0.1:8551"}, Agent: "agent_1", Token: token})
//	...
//	defer client.Close(ctx)
//	llm := &http.Client{Transport: &quota.Transport{Client: client}}
//
// Other programs call [Client.Admit], and report to the [Pass] how the call has ended.
//
// # Leases
//
// The client reserves for several calls at once ([Lease]) and admits them without a question each.
// It reserves the next lease before one is used up, extends one that is in use when a third of its
// time is over, and settles it with the sum of what its calls have used when the last of them has
// ended. While no coordinator answers it goes on until a lease is used up or its time is over, by
// its own monotonic clock less a tenth; then a call waits for Options.Patience; then [Loss] decides.
// So a take-over is not felt that is shorter than half of the TTL, if the calls meanwhile are fewer
// than half a lease, or, by those beyond, that is shorter than Patience.
//
// What is reserved counts as used, so nothing is overshot while coordinators are there. If none is
// for longer than a lease's time, the next one gives the lease's quota to others when its
// reservation has expired, and its calls are charged all the same when they are reported. What is
// used beyond a limit then is at most the sum of the leases that had expired, unreported: for each
// client, and each sort of calls, one that is in use, the next one, which is reserved when less
// than half of the first is left, and those for calls that waited or run. Beyond that calls may
// use more than was expected of them, as without leases.
//
// # What is unconfirmed
//
// While no leader can be asked a coordinator may grant by itself (on_loss of quotas.yaml). It alone
// knows such a reservation until it has reported it to a leader, which it does at its end, or after two
// minutes. So the client reports the end to this coordinator and, for a bit longer than these two minutes,
// to no other, and does not take "unknown" for an answer. What no coordinator knows after that is counted
// as lost (Stats): it is charged as it was asked for, or, if the coordinator has ended, not at all.
//
// # What it must never do
//
// It never changes a request or an answer, delays no stream, and keeps no goroutine after Close
// but those of calls that run. It never logs, nor puts into an error, a token, a prompt or an
// answer; of requests it reads the model and the bounds of tokens, of answers the usage.
package quota

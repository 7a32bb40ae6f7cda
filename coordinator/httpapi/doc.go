// Package httpapi is the window for people and monitoring: health, readiness,
// status, metrics, statistics of the fleet, recent tasks and why they went where they
// went, over HTTP; the few orders that an operator gives: cancel a task; cordon, drain
// or uncordon an agent; the one report that an agent may make here instead of over
// RabbitMQ: its capacity; and quota for LLM calls that no task stands for, which agents
// and gateways reserve and settle here.
//
// It answers "what is going on?" from a [Source], the small interface it asks
// the service through, and hands orders and reports on to it. It must never change
// anything for somebody who does not hold the admin token, take a report from somebody
// who does not hold its agent's token, give quota to somebody who has not shown who he
// is, and never do any of it for a GET: without a token and a secret in [Options] every
// change and every report is refused. The one exception is GET /v1/quota/auth with what
// is below it, which charges quota, because nginx asks with GET whether a request may
// pass: it takes the same tokens, and nothing that a page made a browser send. The package
// never waits for the broker to say that the process is alive, and shows no payload and no secret:
// the admin token is kept as a hash only.
package httpapi

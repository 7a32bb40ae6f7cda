// Package httpapi is the window for people and monitoring: health, readiness,
// status, metrics, statistics of the fleet, recent tasks and why they went where they
// went, over HTTP; the few orders that an operator gives: cancel a task; cordon, drain
// or uncordon an agent; and the one report that an agent may make here instead of over
// RabbitMQ: its capacity.
//
// It answers "what is going on?" from a [Source], the small interface it asks
// the service through, and hands orders and reports on to it. It must never change
// anything for somebody who does not hold the admin token, take a report from somebody
// who does not hold its agent's token, and never do either for a GET: without a token
// and a secret in [Options] every change and every report is refused. It never waits
// for the broker to say that the process is alive, and shows no payload and no secret:
// the admin token is kept as a hash only.
package httpapi

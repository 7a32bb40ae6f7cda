// Package httpapi is the window for people and monitoring: health, readiness,
// status, metrics and recent tasks over HTTP, and the few orders that an operator
// gives: cancel a task; cordon, drain or uncordon an agent.
//
// It answers "what is going on?" from a [Source], the small interface it asks
// the service through, and hands orders on to it. It must never change anything
// for somebody who does not hold the admin token, and never for a GET: without a
// token in [Options] every change is refused. It never waits for the broker to
// say that the process is alive, and shows no payload and no secret: the token is
// kept as a hash only.
package httpapi

// Package httpapi is the window for people and monitoring: health, readiness,
// status, metrics and recent tasks over HTTP.
//
// It answers "what is going on?" from a [Source], the small interface it asks
// the service through. It must never change anything: there is no mutating
// endpoint. It never waits for the broker to say that the process is alive, and
// shows no payload and no secret.
package httpapi

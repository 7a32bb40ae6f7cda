// Package httpapi is the HTTP interface.
//
// It has health, status, metrics, tasks and explanations; orders; reports of capacity; quota for LLM calls.
//
// It asks the service through [Source], a small interface of its own, and hands orders and reports on to
// it. It must never
//   - change anything without the admin token, take a report without its agent's token, or give quota to
//     a caller that has not shown an identity: without a token and a secret in [Options] every change and
//     every report is refused;
//   - change anything for a GET. The one exception is GET /v1/quota/auth with what is below it, which
//     charges quota, because nginx asks with GET whether a request may pass: it takes the same tokens, and
//     nothing that a page made a browser send;
//   - wait for the broker to say that the process is alive;
//   - show a payload or a secret: of the admin token it keeps a hash.
package httpapi

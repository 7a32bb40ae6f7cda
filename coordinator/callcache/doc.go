// Package callcache answers a gateway's questions about LLM calls out of leases. A lease is quota that is reserved
// for several calls at once, for a short time. So most calls cost no question to a coordinator, and calls go on for
// that time while none answers.
//
// It speaks as a coordinator does (GET /v1/quota/auth, /v1/quota/auth/settle), and knows no caller: one that shows a
// token asks by that token, for leases of its own, and a coordinator says whether it may. What it does not answer by
// itself it hands on: refusals above all, so that each is a coordinator's own, and every other question about calls.
// It never grants what no lease has room for.
package callcache

// Package clients answers: do the clients in other languages do, with a real broker and a real coordinator, what the
// Go SDK does? The tests themselves are written in the client's language, beside it (clients/python/tests); here is
// what they need around them.
package clients

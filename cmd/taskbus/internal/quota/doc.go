// Package quota answers: what is used of the LLM quotas, and what shall be changed of them?
//
// It is `taskbus quota`. A coordinator counts, decides and compares; this package must never do so itself.
package quota

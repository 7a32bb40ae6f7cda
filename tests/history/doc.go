// Package history answers: is the history of usage what agents have told, to the token, with a
// real broker and a real program, whatever is killed and whichever database is away?
package history

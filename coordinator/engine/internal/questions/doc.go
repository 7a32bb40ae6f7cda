// Package questions answers "what do users and the shell ask of the engine's state?"
//
// Nothing changes by a question, and what it returns shares nothing with the state. The kernel does not import the
// answers: no decision depends on what was asked.
package questions

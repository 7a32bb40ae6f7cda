// Package audit answers "is the engine's state consistent?"
//
// Much of the state is stored twice, once in a form that is quick to change and once in a form that is quick to query,
// and both must agree. Each part checks itself. Here it is compared with other parts, and with the table of tasks.
// Nothing that a decision depends on changes.
package audit

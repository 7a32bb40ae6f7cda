// Package outputs answers "what did the agent find out with which this task has ended?", as long as there is room.
//
// It keeps outputs in memory, the latest first, up to a number of bytes. It must never write one down, and it decides
// nothing: it keeps the output of a result that may turn out to end no task.
package outputs

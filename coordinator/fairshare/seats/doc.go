// Package seats answers: may so many more run?
//
// A Limit is how many seats a node of a tree has and those below it share. What one does not use others may use at
// once; it comes back by attrition, as seats are given back, and those below their part get them first. It must never
// read a clock, allocate to answer, or take a seat from what runs.
package seats

// Package arith answers: what do two amounts come to, where the result may not fit?
//
// Products, quotients and sums of int64 that are exact or, beyond the largest number, that number; and a whole divided
// by weights, to the unit. It must never allocate but where a caller gives no room, use floating point, or know what
// the amounts are of.
package arith

// Package web reads requests strictly and answers them honestly.
//
// Parameters, bodies and their members are read as they must be or refused in words that say what is wrong
// ([Parameters], [ReadBody]); every answer is written as a whole ([Answer], [Problem], [Send]).
//
// It must never know an endpoint, pass over what is misspelt or given twice, or repeat more of a request than
// cleaned names.
package web

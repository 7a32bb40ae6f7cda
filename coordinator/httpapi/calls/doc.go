// Package calls is quota for LLM calls over HTTP.
//
// It reads what a request says of a call, in its body or in headers ([ReadAuth]), decides which client asks
// and for which agent, has a [Source] answer, and answers by the contract of the endpoint ([Calls]); and it
// forwards what it is asked to the coordinator that leads ([Forward]).
//
// It must never give quota to a caller that has not shown an identity, decide what is granted, or name an
// address, a token or another agent's use. That an endpoint of it changes something for a GET is the one
// exception of the interface: nginx asks so. It takes the same tokens there, and nothing that a page of
// another origin made a browser send.
package calls

// Package heard answers: what do the headers of an LLM provider's answer say of its limits?
//
// It knows the headers of OpenAI (x-ratelimit-…, which Azure, Groq, Mistral and others send as
// well), of Anthropic (anthropic-ratelimit-…) and Retry-After, as a number, as a date, and in
// milliseconds. What it cannot read it passes over: a header says less then, never something else.
// It must not hold on to a header that it does not know, and reads no body.
package heard

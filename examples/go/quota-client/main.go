// Command quota-client calls an LLM within the quota of agent_core_1 of ../../quotas.yaml. The LLM
// is a stub in this process; what is around it is what a program needs.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"
	"unicode"

	"taskbus/agent/quota"
)

func main() {
	client, err := quota.New(quota.Options{
		URLs:  urls(cmp.Or(os.Getenv("TASKBUS_URLS"), "http://127.0.0.1:8551")), // all coordinators
		Agent: "agent_core_1",
		Token: os.Getenv("TASKBUS_AGENT_TOKEN"), // taskbus agents token agent_core_1
	})
	if err != nil {
		log.Fatal(err)
	}
	llm := &http.Client{Transport: &quota.Transport{Client: client}}

	provider := httptest.NewServer(http.HandlerFunc(stub)) // https://api.openai.com
	defer provider.Close()
	for i := range 12 {
		call(llm, provider.URL, fmt.Sprintf("Question %d?", i+1))
	}

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := client.Close(ctx); err != nil { // tells what was used
		log.Print(err)
	}
	fmt.Printf("%d calls in %d leases, %d refused\n", client.Stats().Admitted, client.Stats().Leases,
		client.Stats().Refused)
}

// urls are those of a list, with commas or blanks between them.
func urls(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}

func call(llm *http.Client, provider, question string) {
	body := fmt.Sprintf(`{"model": "gpt-4o", "max_tokens": 50, "messages": [{"role": "user", "content": %q}]}`, question)
	resp, err := llm.Post(provider+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Choices []struct{ Message struct{ Content string } }
		Detail  string // of a refusal
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		log.Fatal(err)
	}
	switch resp.StatusCode {
	case http.StatusOK:
		fmt.Println(question, answer.Choices[0].Message.Content)
	case http.StatusTooManyRequests: // by the provider or by the quota: wait, and try again
		fmt.Println(question, "not before", resp.Header.Get("Retry-After"), "s:", answer.Detail)
	default:
		log.Fatalf("%s %s", resp.Status, answer.Detail)
	}
}

// stub answers as OpenAI does.
func stub(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"choices": [{"message": {"role": "assistant", "content": "42."}}], "usage": {"prompt_tokens": 12, `+
		`"completion_tokens": 3}}`)
}

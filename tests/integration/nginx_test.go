package integration

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"taskbus/coordinator/credential"
)

var quiet = log.New(io.Discard, "", 0)

// gatewayRig is a coordinator with these quotas that agents may ask.
func gatewayRig(t *testing.T, quotas string, env ...string) (*rig, *process) {
	t.Helper()
	r := newRig(t, fleet)
	if err := os.WriteFile(filepath.Join(filepath.Dir(r.config), "quotas.yaml"), []byte(quotas), 0o600); err != nil {
		t.Fatal(err)
	}
	return r, r.start(append(env, "TASKBUS_AGENT_SECRET="+agentSecret)...)
}

// used is what an agent has used, and has set aside, of its budget of total tokens.
func (c *process) used(agent string) (used, reserved float64) {
	c.t.Helper()
	var a struct {
		Nodes []struct {
			Name    string
			Budgets []struct {
				Dimension      string
				Used, Reserved float64
			}
		}
	}
	c.read("/v1/quota/agents/"+agent, &a)
	for _, n := range a.Nodes {
		for _, b := range n.Budgets {
			if n.Name == agent && b.Dimension == "total_tokens" {
				return b.Used, b.Reserved
			}
		}
	}
	c.t.Fatalf("/v1/quota/agents/%s has no budget of its own", agent)
	return 0, 0
}

// One agent with 1000 tokens a day, one with two calls an hour; seats for two calls at a time.
const gatewayQuotas = `
groups:
  - {id: team, limits: {total_tokens: {amount: 2000, per: day}, concurrency: {amount: 2}}}
agents:
  - {id: rich, group_id: team, limits: {total_tokens: {amount: 1000, per: day, borrow: 0}}}
  - {id: rare, group_id: team, limits: {total_tokens: {amount: 1000, per: day, borrow: 0}, requests: {rate: 2, per: hour, burst: 2, borrow: 0}}}
default_output_tokens: 16
`

// The commands of the example's README work as they stand there, up to the one that would start it, which
// differs from the one before only in that: it would need ports that may be taken.
func TestNginxByItsReadme(t *testing.T) {
	t.Parallel()
	nginxProgram(t)
	readme, err := os.ReadFile("../../examples/gateways/nginx/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(readme), "```sh\n")
	block, _, _ = strings.Cut(block, "```")
	lines := strings.Split(strings.TrimSpace(block), "\n")
	if len(lines) != 3 || strings.Replace(lines[1], " -t", " -g 'daemon off;'", 1) != lines[2] {
		t.Fatalf("the README's commands are %q, want three: a folder, a look, the start", lines)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", lines[0]+"\n"+lines[1])
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	if said, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(said), "test is successful") {
		t.Errorf("the README's commands: %v\n%s", err, said)
	}
}

// Calls stream through nginx and are charged what they have used; one without quota is answered
// 429 with Retry-After, and the provider sees nothing of it.
func TestNginxAsksForQuota(t *testing.T) {
	t.Parallel()
	_, c := gatewayRig(t, gatewayQuotas)
	llm, taskbus := newProvider(t), listenTo(t, c.base)
	n := startNginx(t, taskbus.URL, llm.URL, nil)

	t.Run("a stream passes piece by piece, holding its reservation", func(t *testing.T) {
		goOn := make(chan struct{})
		llm.streams(goOn)
		resp := n.call("rich", "")
		lines := bufio.NewReader(resp.Body)
		first, err := lines.ReadString('\n')
		if err != nil || !strings.Contains(first, "Hello") || resp.StatusCode != 200 {
			t.Fatalf("%d %q, %v; want the first piece while the provider waits with the second", resp.StatusCode, first, err)
		}
		// It sends 31 bytes, 8 tokens, and for the answer 16 are assumed.
		if used, reserved := c.used("rich"); used != 0 || reserved != 24 {
			t.Errorf("%v tokens used and %v reserved while it streams, want 0 and 24", used, reserved)
		}
		if got := resp.Header.Get("RateLimit-Policy"); !strings.Contains(got, `"pool/team/rich:total_tokens:budget";q=1000`) {
			t.Errorf("RateLimit-Policy %s does not name the agent's budget", got)
		}
		close(goOn)
		if rest, err := io.ReadAll(lines); err != nil || !strings.Contains(string(rest), "[DONE]") {
			t.Errorf("the rest of the stream: %q, %v", rest, err)
		}
		llm.streams(nil)
		// The two pieces have 50 and 14 bytes, 16 tokens; what came in, with its headers, is the
		// request's whole length, which net/http decides on.
		eventually(t, patience, "the call is settled", func() (bool, string) {
			used, reserved := c.used("rich")
			return reserved == 0 && used > 16+31/4, fmt.Sprintf("%v used, %v reserved", used, reserved)
		})
		for _, r := range llm.seen() {
			if got := r.Header.Get("Authorization"); got != "Bearer the-provider's-key" || r.Header.Get("X-Quota-Agent") != "" {
				t.Errorf("the provider got Authorization %q and X-Quota-Agent %q", got, r.Header.Get("X-Quota-Agent"))
			}
		}
	})

	t.Run("what the provider says of the usage counts", func(t *testing.T) {
		before, _ := c.used("rich")
		llm.answers(0, http.Header{"X-Usage-Input-Tokens": {"30"}, "X-Usage-Output-Tokens": {"70"}})
		ended(t, n.call("rich", ""))
		eventually(t, patience, "30 + 70 tokens are charged", func() (bool, string) {
			used, reserved := c.used("rich")
			return used == before+100 && reserved == 0, fmt.Sprintf("%v used of which %v before, %v reserved", used, before,
				reserved)
		})
		llm.answers(http.StatusTooManyRequests, nil)
		if resp := n.call("rich", ""); resp.StatusCode != 429 {
			t.Errorf("the provider's own 429 came as %d", resp.StatusCode)
		}
		eventually(t, patience, "a call that the provider refused is free", func() (bool, string) {
			used, reserved := c.used("rich")
			return used == before+100 && reserved == 0 && taskbus.settled.Load() == 3,
				fmt.Sprintf("%v used, %v reserved, %d settled", used, reserved, taskbus.settled.Load())
		})
		llm.answers(0, nil)
	})

	t.Run("a client that hangs up", func(t *testing.T) {
		before, _ := c.used("rich")
		goOn := make(chan struct{})
		llm.streams(goOn)
		defer llm.streams(nil)
		resp := n.call("rich", "")
		if _, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		if _, reserved := c.used("rich"); reserved == 0 {
			t.Error("nothing is reserved while it streams")
		}
		resp.Body.Close()
		// What was sent until then is charged; the provider has not said how it ended.
		eventually(t, patience, "the call is settled", func() (bool, string) {
			used, reserved := c.used("rich")
			return used > before && reserved == 0, fmt.Sprintf("%v used of which %v before, %v reserved", used, before, reserved)
		})
	})

	t.Run("401", func(t *testing.T) {
		before := len(llm.seen())
		resp := n.call("rich", credential.AgentToken([]byte(agentSecret), "rare"))
		if resp.StatusCode != 401 || !strings.Contains(resp.Header.Get("WWW-Authenticate"), "Bearer") ||
			len(llm.seen()) != before {
			t.Errorf(
				"with the token of another agent: %d, WWW-Authenticate %q, %d more calls at the provider; want 401 and none",
				resp.StatusCode, resp.Header.Get("WWW-Authenticate"), len(llm.seen())-before)
		}
	})

	t.Run("refused, and remembered", func(t *testing.T) {
		before := len(llm.seen())
		for range 2 { // its two calls of this hour
			if resp := n.call("rare", ""); resp.StatusCode != 200 {
				t.Fatalf("%d %s, want 200", resp.StatusCode, ended(t, resp))
			} else {
				ended(t, resp)
			}
		}
		asked, begun := taskbus.asked.Load(), time.Now()
		const hammered = 300
		for range hammered {
			resp := n.call("rare", "")
			// Its rate is whole again after an hour, and it is told less than a minute more; that the
			// day's budget is later does not count.
			wait, err := strconv.Atoi(resp.Header.Get("Retry-After"))
			if text := ended(t, resp); resp.StatusCode != 429 || err != nil || wait < 1 || wait > 3659 ||
				!strings.Contains(text, "Quota exceeded") {
				t.Fatalf("%d, Retry-After %q: %s", resp.StatusCode, resp.Header.Get("Retry-After"), text)
			}
		}
		if reached := len(llm.seen()) - before; reached != 2 {
			t.Errorf("%d calls have reached the provider, want the two that were granted", reached)
		}
		// One question, and one for each second that has begun meanwhile; a question that is on its
		// way does not keep the next from being asked, but these came one after the other.
		most := int64(time.Since(begun)/time.Second) + 2
		if questions := taskbus.asked.Load() - asked; questions < 1 || questions > most {
			t.Errorf("%d refused calls made %d questions in %v, want 1 to %d", hammered, questions, time.Since(begun), most)
		} else {
			t.Logf("%d refused calls made %d questions in %v", hammered, questions, time.Since(begun))
		}
		// What is remembered is for the agent that was refused: not for another agent, nor another's token.
		if resp := n.call("rich", ""); resp.StatusCode != 200 {
			t.Errorf("another agent, meanwhile: %d, want 200", resp.StatusCode)
		}
		if resp := n.call("rare", "a-token-of-nobody"); resp.StatusCode != 401 {
			t.Errorf("the same agent with a token of nobody, meanwhile: %d, want 401", resp.StatusCode)
		}
	})
}

// A coordinator that cannot be asked lets nothing through, or everything, as the operator has decided.
func TestNginxWithoutCoordinator(t *testing.T) {
	t.Parallel()
	_, c := gatewayRig(t, gatewayQuotas)
	llm := newProvider(t)
	closed := startNginx(t, c.base, llm.URL, nil)
	open := startNginx(t, c.base, llm.URL, func(conf string) string {
		from := strings.Index(conf, "        location @quota_unanswered {")
		to := strings.Index(conf, "        # Open instead")
		if from < 0 || to < from {
			t.Fatal("nginx.conf has no block of its own for what cannot be asked")
		}
		opened := strings.ReplaceAll(conf[to:], "        # ", "        ")
		return conf[:from] + replaced(t, opened, "Open instead, ", "# Open instead, ")
	})
	for _, n := range []*nginx{closed, open} {
		if resp := n.call("rich", ""); resp.StatusCode != 200 {
			t.Fatalf("while it runs: %d, want 200", resp.StatusCode)
		} else {
			ended(t, resp)
		}
	}
	c.kill()
	before := len(llm.seen())
	if resp := closed.call("rich", ""); resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "1" ||
		len(llm.seen()) != before {
		t.Errorf("closed: %d, Retry-After %q, %d calls at the provider; want 503, 1 and none", resp.StatusCode,
			resp.Header.Get("Retry-After"), len(llm.seen())-before)
	}
	if resp := open.call("rich", ""); resp.StatusCode != 200 || !strings.Contains(ended(t, resp), "[DONE]") ||
		len(llm.seen()) != before+1 {
		t.Errorf("open: %d, %d calls at the provider; want 200 and one", resp.StatusCode, len(llm.seen())-before)
	}
}

// One that stands by asks the leader: the call passes, and is charged there.
func TestNginxBeforeAStandby(t *testing.T) {
	t.Parallel()
	r, leader := gatewayRig(t, gatewayQuotas)
	second := r.launch(r.broker.URL, "TASKBUS_AGENT_SECRET="+agentSecret)
	second.awaitState("standby")
	llm := newProvider(t)
	n := startNginx(t, second.base, llm.URL, nil)
	if resp := n.call("rich", ""); resp.StatusCode != 200 || !strings.Contains(ended(t, resp), "[DONE]") ||
		len(llm.seen()) != 1 {
		t.Errorf("%d, %d calls at the provider; want 200 and one", resp.StatusCode, len(llm.seen()))
	}
	if used, reserved := leader.used("rich"); used+reserved == 0 {
		t.Error("nothing is charged at the leader")
	}
}

// Two tenants at weights 3:1 hammer through nginx, and each gets its part of a rate that both
// share. R = 20 calls a second, burst B = 60, so that the parts are 15/s and 5/s with bursts of 45
// and 15. In T seconds a tenant gets at most burst + rate·T. What it does not get is what is left in
// its bucket at the end, as long as the bucket has not been full before: it fills for the second,
// in which nginx repeats a refusal by itself, and a second that nginx rounds up, and the bucket
// holds three seconds' worth. So with T between t and t' (which bound the time from the first
// question to the last answer) a part of rate r and burst 3r ends between r·(t+3)-2r-1 and
// r·(t'+3): 15·(t+1)-1 to 15·(t'+3), and 5·(t+1)-1 to 5·(t'+3).
func TestNginxSharesByWeight(t *testing.T) {
	t.Parallel()
	_, c := gatewayRig(t, `
pool: {limits: {requests: {rate: 20, per: second, burst: 60}}}
groups:
  - {id: three, weight: 3, limits: {requests: {rate: by_weight}}}
  - {id: one, weight: 1, limits: {requests: {rate: by_weight}}}
agents:
  - {id: greedy, group_id: three}
  - {id: keen, group_id: one}
`)
	llm := newProvider(t)
	n := startNginx(t, c.base, llm.URL, nil)
	const lasts = 6 * time.Second
	var got [2]int
	var all sync.WaitGroup
	begun := time.Now()
	for i, agent := range []string{"greedy", "keen"} {
		var mu sync.Mutex
		for range 4 { // four clients each
			all.Go(func() {
				for time.Since(begun) < lasts {
					resp, err := n.tryCall(agent, "")
					if err != nil {
						t.Errorf("%s: %v", agent, err)
						return
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
					switch resp.StatusCode {
					case 200:
						mu.Lock()
						got[i]++
						mu.Unlock()
					case 429:
					default:
						t.Errorf("%s: %d", agent, resp.StatusCode)
						return
					}
				}
			})
		}
	}
	all.Wait()
	took := time.Since(begun).Seconds()
	for i, rate := range []float64{15, 5} {
		least, most := rate*(lasts.Seconds()+1)-1, rate*(took+3)
		if g := float64(got[i]); g < least || g > most {
			t.Errorf("the tenant of %v calls a second got %v in %.2f s, want %.0f to %.0f", rate, g, took, least, most)
		}
	}
	if reached := len(llm.seen()); reached != got[0]+got[1] {
		t.Errorf("%d calls reached the provider, %d were answered", reached, got[0]+got[1])
	}
	t.Logf("weights 3:1 got %d and %d (%.2f : 1) in %.2f s", got[0], got[1], float64(got[0])/float64(got[1]), took)
}

package arch

import (
	"fmt"
	"regexp"
	"strings"
)

// word is a word or phrase of ours for which the field has one of its own. The pattern is matched in any case, on
// identifiers after they were split into words.
type word struct {
	pattern string
	instead string
	in      kind
}

const (
	prose    = comments | literals | docs
	anywhere = names | prose
)

// things are what a runtime, a node or an agent creates.
const things = `(?:containers?|sandbox(?:es)?|pods?|instances?|director(?:y|ies)|folders?|files?|cgroups?|volumes?|` +
	`mounts?|objects?)`

// words is read from the top: what an entry has matched is not matched again.
var words = []word{
	{`tells? whether`, "reports whether", anywhere},
	{`(?:tells?|told|telling|tellers?|untold)`, "report, emit, return; record for the journal; distinguish", anywhere},
	{`said of|says? of`, "reported about", anywhere},

	{`made`, "create, created, new", names},
	{`^make`, "new, create, write", names},
	{`(?:is|are|was|were|be|been|being|has|have|had|not|never|yet|newly|just|once|if|that|than|when|as|and|or|nothing) ` +
		`made`, "created", prose},
	{`made (?:again|anew|for|by|at|before|after|with|without|now|next|twice|while|in|from)`, "created", prose},
	{`(?:its|their|whose|the|a|of|for|before|after|while|by|under) making`, "creation, creating", prose},
	{`mak(?:es?|ing) (?:(?:a|an|the|its|one|no|another|any|each|every|new|all|this|that|these|up|both) )?(?:\w+ )?` +
		things, "create", prose},
	{`(?:makers?|remade|remakes?)`, "creator, creates", anywhere},

	{`(?:look|looks|looked|lookers?|looking)`, "inspect, inspection, relist, read, check", names},
	{`(?:a|an|the|one|no|each|every|this|that|first|last|next|two|our|its|of|between|by|any|whole|per|latest|same|such|` +
		`new|old|more|many|all|these|those|their|previous|late|later|both|other|another|slow|failed|from|with|without) ` +
		`looks?`, "inspection, relist", prose},
	{`look(?:s|ed|ing)? (?:at|into|through|again|after|over|further)`, "inspect, read, check", prose},
	{`lookers?`, "inspector", prose},

	{`let(?:s|ting)? (?:\w+ )?in`, "admit, admitted", anywhere},
	{`turn(?:s|ed|ing)? (?:\w+ )?away`, "reject, rejected", anywhere},
	{`nobody['’]?s`, "orphan", anywhere},
	{`unnamed`, "orphan, unclaimed, unreferenced", anywhere},
	{`disown(?:s|ed|ing)?`, "orphan, release", anywhere},
	{`clear(?:s|ed|ing)? (?:\w+ )?away`, "garbage-collect, remove", anywhere},
	{`(?:life|lives|lifes)`, "incarnation; run; lifetime, lifecycle", anywhere},
	{`ha(?:s|ve|d) come to`, "has reached, is now", anywhere},

	{`questions?`, "request", anywhere},
	{`askers?`, "requester, client", anywhere},
	{`(?:ask|asks|asked|asking|unasked)`, "request, requested; XRequested, XDecided, XWithdrawn", names},
	{`source (?:ready|settled)`, "SourceSynced", names},
	{`(?:a|the|one) whole reading`, "a complete read", prose},
	{`takes? back|taken back|took back`, "withdraw", anywhere},

	{`opening (?:timer|patience)|evolve opening`, "starting", names},
	{`unsure`, "undetermined", anywhere},
	{`doubters?`, "retry worker", anywhere},
	{`stor(?:y|ies)`, "scenario", anywhere},
	{`folders?`, "directory", anywhere},
	{`mend(?:s|ed|ing)?`, "fix", anywhere},
	{`rights`, "permissions, privileges", anywhere},
	{`slips? of (?:the|a) pen`, "typo", prose},
	{`anew`, "again", anywhere},
	{`learnt`, "learned", anywhere},
	{`go(?:es|ing|ne)? on|went on`, "continue, keep running", anywhere},
	{`tak(?:es?|ing|en) up|took up`, "read, adopt, start with", anywhere},
	{`stands (?:in|under|beside|at|there|on)`, "is in, is under, is beside", anywhere},
	{`(?:stand|standing|stood) (?:in|under|beside|at|there|on)`, "be in, be under, be beside", prose},
	{`whoever`, "a caller that, who", anywhere},
}

// foreign are words of others, and words that mean something else; they are left out before words are looked up.
var foreign = []struct{ pattern, why string }{
	{`\b(?:make|makes|made|making) (?:sure|up|out|do|sense|room|good|ready|known|possible)\b`, "another verb"},
	{`\b(?:calls?|connections?|requests?|decisions?|mistakes?)(?: \w+){0,3} made\b`, "what the field makes"},
	{`\bmak(?:es?|ing) (?:the|a|its|another) (?:pod|container|sandbox) ` +
		`(?:ask|request|wait|end|start|run|be|go|fail|ready|count|another)\b`, "causes"},
	{`\bmake IP ?Tables\b`, "a field of KubeletConfiguration"},
	{`\bstands? in for\b`, "represents"},
	{`\b(?:lives|live) (?:in|on|under|below|beside|as long|longer)\b`, "a verb: where something is kept"},
	{`\b(?:LookPath|lookup|(?:look|looks|looked|looking) up)\b`, "a search by key, and os/exec's name for one"},
	{`\blook(?:s|ed|ing)? (?:like|different|the same)\b`, "resembles"},
	{`\btake back off\b`, "of a back-off"},
	{`\bturn(?:s|ed)? away from\b`, "leaves"},
	{`\bquestions are welcome\b`, "of readers"},
	{`\bnot "[^"]{1,60}"`, "an example of what we do not say"},
	{`# Question$`, "a heading of decision records"},
	{`\x60make\x60|^make$|\$\(MAKE\)|Makefile\b`, "the program make"},
}

type matcher struct {
	word
	re *regexp.Regexp
}

var (
	matchers = func() []matcher {
		var out []matcher
		for _, w := range words {
			out = append(out, matcher{w, regexp.MustCompile(`(?i)\b(?:` + w.pattern + `)\b`)})
		}
		return out
	}()
	foreigners = func() *regexp.Regexp {
		all := []string{`https?://\S+`}
		for _, f := range foreign {
			all = append(all, f.pattern)
		}
		return regexp.MustCompile(`(?i)` + strings.Join(all, "|"))
	}()
	// identifiers finds in a sentence what is no word of it: a compound with capitals or underscores, and one word set
	// as code.
	identifiers = regexp.MustCompile("`[A-Za-z]\\w*`|" + `[A-Za-z][a-z0-9]*(?:[A-Z_][A-Za-z0-9]*)+`)
)

// wordList are the files that have to name the words which are not used.
var wordList = []string{"test/arch/words.go", "test/arch/words_test.go", "docs/GLOSSARY.md"}

// checkWords wants the field's words in everything that is written for a reader.
func checkWords(t *tree) ([]finding, error) {
	passages, err := t.passages()
	if err != nil {
		return nil, err
	}
	var out []finding
	for _, p := range passages {
		for _, name := range wordList {
			if p.path == name {
				p.text = ""
			}
		}
		out = append(out, p.words()...)
	}
	return out, nil
}

func (p *passage) words() []finding {
	text := []byte(p.text)
	blank(text, foreigners.FindAllIndex(text, -1))
	if p.kind == names {
		return p.match(text, 0, names)
	}
	var out []finding
	found := identifiers.FindAllIndex(text, -1)
	if p.kind == literals && isName.Match(text) {
		found = [][]int{{0, len(text)}}
	}
	for _, m := range found {
		id := []byte(split(strings.Trim(string(text[m[0]:m[1]]), "`")))
		blank(id, foreigners.FindAllIndex(id, -1))
		out = append(out, p.match(id, m[0], names)...)
	}
	blank(text, found)
	return append(out, p.match(text, 0, p.kind)...)
}

// isName finds literals that are names: of a log field, of a column.
var isName = regexp.MustCompile(`^[A-Za-z_][\w.-]*$`)

// match returns what words of kind k are in text, which begins at offset of the passage.
func (p *passage) match(text []byte, offset int, k kind) []finding {
	var out []finding
	for _, m := range matchers {
		if m.in&k == 0 {
			continue
		}
		found := m.re.FindAllIndex(text, -1)
		for _, at := range found {
			line := p.lineAt(offset + at[0])
			if k == names {
				line = p.lineAt(offset)
			}
			text := fmt.Sprintf("%q: say %s", text[at[0]:at[1]], m.instead)
			out = append(out, finding{path: p.path, line: line, text: text})
		}
		blank(text, found)
	}
	return out
}

func blank(text []byte, ranges [][]int) {
	for _, r := range ranges {
		for i := r[0]; i < r[1]; i++ {
			text[i] = ' '
		}
	}
}

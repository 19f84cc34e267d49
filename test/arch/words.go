package arch

import (
	"regexp"
	"slices"
	"strings"
)

// word is a word or phrase of ours for which the field has one of its own. The pattern is matched in any case, on
// identifiers after they were split into words.
type word struct {
	pattern *regexp.Regexp
	instead string
	in      kind
}

func whole(pattern, instead string, in kind) word {
	return word{regexp.MustCompile(`(?i)\b(?:` + pattern + `)\b`), instead, in}
}

const (
	prose    = comments | literals | docs
	anywhere = names | prose
)

// words protects the terms of the field. In sentences it finds only the words that would hide a term: it cannot teach
// English. It is read from the top: what an entry has matched is not matched again.
var words = []word{
	whole(`(?:tells?|told|telling|tellers?|untold)`, "report, emit, return; record; distinguish", names),
	whole(`made`, "create, created, new", names),
	whole(`^make`, "new, create, write", names),
	whole(`mak(?:es?|ing) (?:(?:a|an|the|its|one|no|another|any|each|every|new|all|this|that|these) )?(?:\w+ )?`+
		`(?:containers?|sandbox(?:es)?)`, "create", prose), // of CRI
	whole(`(?:makers?|remade|remakes?)`, "creator, creates", names),
	whole(`(?:look|looks|looked|lookers?|looking)`, "inspect, inspection, relist, read, check", names),
	whole(`let(?:s|ting)? (?:\w+ )?in`, "admit, admitted", anywhere),
	whole(`turn(?:s|ed|ing)? (?:\w+ )?away`, "reject, rejected", anywhere),
	whole(`nobody['’]?s`, "orphan", anywhere),
	whole(`unnamed`, "orphan, unclaimed, unreferenced", anywhere),
	whole(`disown(?:s|ed|ing)?`, "orphan, release", anywhere),
	whole(`clear(?:s|ed|ing)? (?:\w+ )?away`, "garbage-collect, remove", anywhere),
	whole(`(?:life|lives|lifes)`, "incarnation; run; lifetime, lifecycle", names),
	whole(`questions?`, "request", names),
	whole(`(?:ask|asks|asked|asking|unasked|askers?)`, "request, requested; XRequested, XDecided, XWithdrawn", names),
	whole(`source (?:ready|settled)`, "SourceSynced", names),
	whole(`takes? back|taken back|took back`, "withdraw", anywhere),
	whole(`opening (?:timer|patience)|evolve opening`, "starting", names),
	whole(`stor(?:y|ies)`, "scenario", names),
	whole(`(?-i:[Ff]olders?)`, "directory", names), // FOLDER is an argument of make
}

// foreign are words of others, and words that mean something else; they are left out before words are searched.
var foreign = regexp.MustCompile(`(?i)https?://\S+|` + strings.Join([]string{
	`\b(?:make|makes|made|making) (?:sure|up|out|do|sense|room|good|ready|known|possible)\b`, // another verb
	`\b(?:calls?|connections?|requests?|decisions?|mistakes?)(?: \w+){0,3} made\b`,
	`\bmak(?:es?|ing) (?:the|a|its|another) (?:container|sandbox) ` + // causes
		`(?:ask|request|wait|end|start|run|be|go|fail|ready|count|another)\b`,
	`\bmake IP ?Tables\b`,             // a field of KubeletConfiguration
	`\b(?:LookPath|lookup|look up)\b`, // by key; os/exec
	`\btake back off\b`,               // of a back-off
	`\bturn(?:s|ed)? away from\b`,
	`\bnot "[^"]{1,60}"`, // an example of what we do not say
	`\x60make\x60|^make$|\$\(MAKE\)|Makefile\b`,
}, "|"))

var (
	// identifiers finds in a sentence what is no word of it: a compound with capitals or underscores, and one word set
	// as code.
	identifiers = regexp.MustCompile("`[A-Za-z]\\w*`|" + `[A-Za-z][a-z0-9]*(?:[A-Z_][A-Za-z0-9]*)+`)
	// isName finds literals that are names: of a log field, of a column.
	isName = regexp.MustCompile(`^[A-Za-z_][\w.-]*$`)
)

// wordList are the files that have to name the words which are not used.
var wordList = []string{"test/arch/words.go", "docs/GLOSSARY.md"}

// checkWords wants the field's words in everything that is written for a reader.
func checkWords(t *tree) {
	for _, p := range t.passages(anywhere) {
		if slices.Contains(wordList, p.path) {
			continue
		}
		text := []byte(p.text)
		blank(text, foreign.FindAllIndex(text, -1))
		if p.kind == names {
			t.match(&p, text, 0, names)
			continue
		}
		found := identifiers.FindAllIndex(text, -1)
		if p.kind == literals && isName.Match(text) {
			found = [][]int{{0, len(text)}}
		}
		for _, m := range found {
			id := []byte(split(strings.Trim(string(text[m[0]:m[1]]), "`")))
			blank(id, foreign.FindAllIndex(id, -1))
			t.match(&p, id, m[0], names)
		}
		blank(text, found)
		t.match(&p, text, 0, p.kind)
	}
}

// match reports what words of kind k are in text, which begins at offset of the passage.
func (t *tree) match(p *passage, text []byte, offset int, k kind) {
	for _, w := range words {
		if w.in&k == 0 {
			continue
		}
		found := w.pattern.FindAllIndex(text, -1)
		for _, at := range found {
			from := offset
			if k != names {
				from += at[0]
			}
			t.report(p.path, p.lineAt(from), "%q: say %s", text[at[0]:at[1]], w.instead)
		}
		blank(text, found)
	}
}

func blank(text []byte, ranges [][]int) {
	for _, r := range ranges {
		for i := r[0]; i < r[1]; i++ {
			text[i] = ' '
		}
	}
}

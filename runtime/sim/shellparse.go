package sim

import (
	"errors"
	"slices"
	"strings"
)

// errNotUnderstood ends the reading of a script that uses more of the shell's language than is known here.
var errNotUnderstood = errors.New("not understood")

// Bounds of a script.
const (
	maxScriptBytes = 16 << 10
	maxNesting     = 32
)

// token is an operator or a word; a word's parts keep what was quoted apart from what is to be expanded.
type token struct {
	op    string
	parts []part
}

type part struct {
	text   string
	expand bool // $NAME is replaced
	quoted bool // not split at blanks afterwards
}

// raw is a word's text if nothing of it was quoted; keywords are only known then.
func (t token) raw() string {
	if len(t.parts) == 1 && !t.parts[0].quoted {
		return t.parts[0].text
	}
	return ""
}

var operators = []string{"&&", "||", ">>", "2>&1", ">&2", "1>&2", "2>", ";", "&", "(", ")", ">", "<", "|", "\n"}

// lex cuts a script into tokens.
func lex(src string) ([]token, error) {
	if len(src) > maxScriptBytes || strings.Contains(src, "$(") || strings.Contains(src, "`") || strings.Contains(src, "<<") || strings.Contains(src, ";;") {
		return nil, errNotUnderstood
	}
	var out []token
	for i := 0; i < len(src); {
		switch c := src[i]; {
		case c == ' ' || c == '\t' || c == '\r':
			i++
		case c == '\\' && strings.HasPrefix(src[i:], "\\\n"):
			i += 2
		case c == '#':
			for i < len(src) && src[i] != '\n' {
				i++
			}
		default:
			if op := operatorAt(src[i:]); op != "" {
				out = append(out, token{op: op})
				i += len(op)
				continue
			}
			word, n, err := lexWord(src[i:])
			if err != nil {
				return nil, err
			}
			out = append(out, word)
			i += n
		}
	}
	return out, nil
}

func operatorAt(s string) string {
	longest := ""
	for _, op := range operators {
		if strings.HasPrefix(s, op) && len(op) > len(longest) {
			longest = op
		}
	}
	return longest
}

// lexWord reads one word from the front of s and tells how many bytes it took.
func lexWord(s string) (token, int, error) {
	var t token
	i := 0
	for i < len(s) && !strings.ContainsRune(" \t\r\n;&|()<>", rune(s[i])) {
		switch s[i] {
		case '\'':
			end := strings.IndexByte(s[i+1:], '\'')
			if end < 0 {
				return t, 0, errNotUnderstood
			}
			t.parts = append(t.parts, part{text: s[i+1 : i+1+end], quoted: true})
			i += end + 2
		case '"':
			text, n, err := lexDouble(s[i+1:])
			if err != nil {
				return t, 0, err
			}
			t.parts = append(t.parts, text...)
			i += n + 1
		case '\\':
			if i+1 >= len(s) {
				return t, 0, errNotUnderstood
			}
			t.parts = append(t.parts, part{text: s[i+1 : i+2], quoted: true})
			i += 2
		default:
			start := i
			for i < len(s) && !strings.ContainsRune(" \t\r\n;&|()<>'\"\\", rune(s[i])) {
				i++
			}
			t.parts = append(t.parts, part{text: s[start:i], expand: true})
		}
	}
	return t, i, nil
}

// lexDouble reads a double-quoted text after its opening quote.
func lexDouble(s string) (parts []part, n int, err error) {
	var b strings.Builder
	flush := func() {
		if b.Len() > 0 {
			parts = append(parts, part{text: b.String(), expand: true, quoted: true})
			b.Reset()
		}
	}
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			flush()
			if len(parts) == 0 {
				parts = []part{{quoted: true}}
			}
			return parts, i + 1, nil
		case s[i] == '\\' && i+1 < len(s) && strings.ContainsRune("\"\\$`", rune(s[i+1])):
			flush()
			parts = append(parts, part{text: s[i+1 : i+2], quoted: true})
			i++
		default:
			b.WriteByte(s[i])
		}
	}
	return nil, 0, errNotUnderstood
}

// node is a piece of a script. kind is one of: simple, and, or, not, seq, while, until, if, for, background.
type node struct {
	kind  string
	words []token // simple: the command; for: the words after "in"
	redir []redirect
	name  string  // for: the variable
	kids  []*node // and/or: two; while/until: condition, body; if: condition, then, else (may be nil); seq: all
}

type redirect struct {
	op     string
	target token
}

type parser struct {
	toks  []token
	at    int
	depth int
}

// parse reads a whole script.
func parse(src string) (*node, error) {
	toks, err := lex(src)
	if err != nil {
		return nil, err
	}
	p := &parser{toks: toks}
	n, err := p.list()
	if err == nil && p.at < len(p.toks) {
		err = errNotUnderstood
	}
	return n, err
}

func (p *parser) peek() token {
	if p.at < len(p.toks) {
		return p.toks[p.at]
	}
	return token{}
}

func (p *parser) skipBlankLines() {
	for p.peek().op == "\n" {
		p.at++
	}
}

var closers = []string{"do", "done", "then", "else", "elif", "fi", "}"}

// list reads commands up to a closing keyword, a closing parenthesis or the end.
func (p *parser) list() (*node, error) {
	if p.depth++; p.depth > maxNesting {
		return nil, errNotUnderstood
	}
	defer func() { p.depth-- }()
	out := &node{kind: "seq"}
	for {
		p.skipBlankLines()
		if p.at >= len(p.toks) || p.peek().op == ")" || slices.Contains(closers, p.peek().raw()) {
			return out, nil
		}
		n, err := p.andOr()
		if err != nil {
			return nil, err
		}
		switch p.peek().op {
		case "&":
			p.at++
			n = &node{kind: "background", kids: []*node{n}}
		case ";", "\n":
			p.at++
		case ")", "":
		default:
			return nil, errNotUnderstood
		}
		out.kids = append(out.kids, n)
	}
}

func (p *parser) andOr() (*node, error) {
	left, err := p.command()
	for err == nil {
		var kind string
		switch p.peek().op {
		case "&&":
			kind = "and"
		case "||":
			kind = "or"
		default:
			return left, nil
		}
		p.at++
		p.skipBlankLines()
		var right *node
		right, err = p.command()
		left = &node{kind: kind, kids: []*node{left, right}}
	}
	return nil, err
}

func (p *parser) command() (*node, error) {
	t := p.peek()
	switch word := t.raw(); {
	case t.op == "(":
		p.at++
		n, err := p.list()
		if err != nil || p.peek().op != ")" {
			return nil, errNotUnderstood
		}
		p.at++
		// A subshell's exit ends only the subshell; that difference is beyond what is needed here.
		return n, nil
	case word == "!":
		p.at++
		n, err := p.command()
		return &node{kind: "not", kids: []*node{n}}, err
	case word == "{":
		p.at++
		return p.until("}")
	case word == "while" || word == "until":
		p.at++
		return p.loop(&node{kind: word})
	case word == "for":
		return p.forLoop()
	case word == "if":
		p.at++
		return p.ifElse()
	case word == "case" || word == "function" || word == "select":
		return nil, errNotUnderstood
	}
	return p.simple()
}

// until reads a list and the keyword that closes it.
func (p *parser) until(keyword string) (*node, error) {
	n, err := p.list()
	if err != nil {
		return nil, err
	}
	if p.peek().raw() != keyword {
		return nil, errNotUnderstood
	}
	p.at++
	return n, nil
}

func (p *parser) loop(n *node) (*node, error) {
	cond, err := p.until("do")
	if err != nil {
		return nil, err
	}
	body, err := p.until("done")
	n.kids = []*node{cond, body}
	return n, err
}

func (p *parser) forLoop() (*node, error) {
	n := &node{kind: "for"}
	p.at++
	if n.name = p.peek().raw(); n.name == "" {
		return nil, errNotUnderstood
	}
	p.at++
	if p.peek().raw() != "in" {
		return nil, errNotUnderstood
	}
	for p.at++; len(p.peek().parts) > 0; p.at++ {
		n.words = append(n.words, p.peek())
	}
	if op := p.peek().op; op != ";" && op != "\n" {
		return nil, errNotUnderstood
	}
	p.at++
	p.skipBlankLines()
	if p.peek().raw() != "do" {
		return nil, errNotUnderstood
	}
	p.at++
	body, err := p.until("done")
	n.kids = []*node{body}
	return n, err
}

func (p *parser) ifElse() (*node, error) {
	cond, err := p.until("then")
	if err != nil {
		return nil, err
	}
	then, err := p.list()
	if err != nil {
		return nil, err
	}
	n := &node{kind: "if", kids: []*node{cond, then, nil}}
	word := p.peek().raw()
	p.at++
	switch word {
	case "fi":
		return n, nil
	case "else":
		n.kids[2], err = p.until("fi")
		return n, err
	case "elif":
		n.kids[2], err = p.ifElse()
		return n, err
	}
	return nil, errNotUnderstood
}

func (p *parser) simple() (*node, error) {
	n := &node{kind: "simple"}
	for {
		t := p.peek()
		switch {
		case len(t.parts) > 0:
			n.words = append(n.words, t)
			p.at++
		case t.op == ">" || t.op == ">>" || t.op == "2>":
			p.at++
			if len(p.peek().parts) == 0 {
				return nil, errNotUnderstood
			}
			n.redir = append(n.redir, redirect{t.op, p.peek()})
			p.at++
		case t.op == ">&2" || t.op == "1>&2" || t.op == "2>&1":
			n.redir = append(n.redir, redirect{op: t.op})
			p.at++
		case t.op == "<" || t.op == "|" || t.op == "(":
			return nil, errNotUnderstood
		case len(n.words) == 0 && len(n.redir) == 0:
			return nil, errNotUnderstood
		default:
			return n, nil
		}
	}
}

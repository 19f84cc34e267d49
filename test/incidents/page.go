package incidents

import (
	"bufio"
	"fmt"
	"strings"
)

// Block is a block of commands on the page, with what they print.
type Block struct {
	// Incident is the incident whose journal the commands read; Line is where the block begins, from 1.
	Incident string
	Line     int
	Commands []Command
}

// Command is one command line without its prompt, and its output.
type Command struct{ Line, Output string }

const (
	mark      = "<!-- scenario: "
	openFence = "```console"
	fence     = "```"
	prompt    = "$ "
)

// Page is a document with console blocks.
type Page struct {
	parts []part
}

// part is a block, or the text between two.
type part struct {
	text  string
	block *Block
}

// ReadPage splits a document. Every console block needs an incident: a line <!-- scenario: NAME --> above it.
func ReadPage(text string) (*Page, error) {
	p, incident := &Page{}, ""
	var prose strings.Builder
	in := bufio.NewScanner(strings.NewReader(text))
	in.Buffer(nil, len(text)+1)
	for n := 1; in.Scan(); n++ {
		line := in.Text()
		if name, ok := strings.CutPrefix(line, mark); ok {
			incident = strings.TrimSuffix(name, " -->")
		}
		prose.WriteString(line + "\n")
		if line != openFence {
			continue
		}
		if incident == "" {
			return nil, fmt.Errorf("line %d: a console block before any incident", n)
		}
		b := &Block{Incident: incident, Line: n}
		p.parts = append(p.parts, part{text: prose.String()}, part{block: b})
		prose.Reset()
		for n++; in.Scan() && in.Text() != fence; n++ {
			if err := b.add(in.Text()); err != nil {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
		}
		prose.WriteString(fence + "\n")
	}
	p.parts = append(p.parts, part{text: prose.String()})
	return p, in.Err()
}

func (b *Block) add(line string) error {
	if command, ok := strings.CutPrefix(line, prompt); ok {
		b.Commands = append(b.Commands, Command{Line: command})
		return nil
	}
	if len(b.Commands) == 0 {
		return fmt.Errorf("output before the first command of its block: begin with %q", prompt)
	}
	b.Commands[len(b.Commands)-1].Output += line + "\n"
	return nil
}

// Blocks returns the console blocks in order.
func (p *Page) Blocks() []*Block {
	var all []*Block
	for _, x := range p.parts {
		if x.block != nil {
			all = append(all, x.block)
		}
	}
	return all
}

// Incidents returns the names of the incidents on the page, each once.
func (p *Page) Incidents() []string {
	var all []string
	seen := map[string]bool{}
	for _, b := range p.Blocks() {
		if !seen[b.Incident] {
			seen[b.Incident] = true
			all = append(all, b.Incident)
		}
	}
	return all
}

// String returns the document.
func (p *Page) String() string {
	var out strings.Builder
	for _, x := range p.parts {
		out.WriteString(x.text)
		if x.block != nil {
			for _, c := range x.block.Commands {
				out.WriteString(prompt + c.Line + "\n" + c.Output)
			}
		}
	}
	return out.String()
}

package events

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// comments are the comments of the contract's files, by the name of what they are about: a message or enum,
// Message.field, or the value of an enum. Under "group Message.field" is the comment that the field's group begins
// with.
type comments map[string]string

var (
	declaration = regexp.MustCompile(`^(message|enum) (\w+) \{`)
	enumValue   = regexp.MustCompile(`^  (\w+) = \d+`)
	field       = regexp.MustCompile(`^ +(?:repeated |optional )?[\w.<>, ]+ (\w+) = \d+`)
)

// readComments reads the files of the contract. They nest no messages and have comments only on lines of their own,
// which `make check` enforces.
func readComments(dir string) (comments, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.proto"))
	if err != nil {
		return nil, err
	}
	all := comments{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		all.read(string(b))
	}
	return all, nil
}

func (c comments) read(text string) {
	var pending []string
	in, isEnum, group := "", false, ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if comment, ok := strings.CutPrefix(strings.TrimSpace(line), "//"); ok {
			pending = append(pending, strings.TrimSpace(comment))
			continue
		}
		about := strings.Join(pending, " ")
		pending = nil
		if m := declaration.FindStringSubmatch(line); m != nil {
			in, isEnum = m[2], m[1] == "enum"
			c[in] = about
			continue
		}
		switch m := enumValue.FindStringSubmatch(line); {
		case isEnum && m != nil:
			c[m[1]] = about
		case !isEnum:
			if m := field.FindStringSubmatch(line); m != nil {
				if about != "" {
					group = about
				}
				c[in+"."+m[1]] = about
				c["group "+in+"."+m[1]] = group
			}
		}
	}
}

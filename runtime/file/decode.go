package file

import (
	"fmt"
	"slices"
	"strings"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/manifest"
)

// What one file may put into a fact. The largest file thus stays well below the size of a record (1 MiB).
const (
	// maxPods bounds the pods of one file; each takes up to about 450 bytes.
	maxPods = 1024
	// maxProblems bounds the problems told of one file.
	maxProblems = 100
	// maxTextBytes bounds each text of a problem.
	maxTextBytes = 1 << 10
)

// decode makes a fact of a file's content, and the pods that must be stored before it.
func decode(name, path string, data []byte, node string) (out *journaletv1.ManifestFile, pods []manifest.Parsed) {
	defer func() {
		if p := recover(); p != nil {
			// One file must not take the others along, and the panic's text may quote it.
			out, pods = whole(name, codeDefect, "the decoder failed on it; report this manifest as a bug of the agent"), nil
		}
	}()
	pods, problems := manifest.Decode(path, data, manifest.Options{NodeName: node, Source: manifest.SourceFile})
	if len(pods) > maxPods {
		return whole(name, codeTooMany, fmt.Sprintf("holds %d pods, and a file may hold %d; split it into several files", len(pods), maxPods)), nil
	}
	pods, problems = dropTooLarge(path, pods, problems)
	out = &journaletv1.ManifestFile{Path: name, Unreadable: len(pods) == 0 && slices.ContainsFunc(problems, ofWholeFile)}
	for _, p := range pods {
		out.Pods = append(out.Pods, &journaletv1.PodRef{
			Uid: string(p.Pod.UID), Namespace: p.Pod.Namespace, Name: p.Pod.Name, Digest: p.Digest,
		})
	}
	for i, p := range problems {
		if i == maxProblems {
			out.Problems = append(out.Problems, &journaletv1.ManifestProblem{
				Code: codeTooMany, Message: fmt.Sprintf("%d more problems; mend these first", len(problems)-i),
			})
			break
		}
		out.Problems = append(out.Problems, problem(p))
	}
	return out, pods
}

// dropTooLarge refuses pods whose defaults made them larger than what can be stored; trying to would never end.
func dropTooLarge(path string, pods []manifest.Parsed, problems []manifest.Problem) ([]manifest.Parsed, []manifest.Problem) {
	kept := pods[:0]
	for _, p := range pods {
		if int64(len(p.Canonical)) > manifest.DefaultMaxBytes {
			problems = append(problems, manifest.Problem{
				Path: path, Line: p.Line, Code: manifest.CodeTooLarge,
				Message: fmt.Sprintf("%d bytes with defaults applied, and a pod may have %d", len(p.Canonical), manifest.DefaultMaxBytes),
				Remedy:  "shorten what it carries inline",
			})
			continue
		}
		kept = append(kept, p)
	}
	return kept, problems
}

// ofWholeFile tells whether a problem leaves open what the author meant the file to hold.
func ofWholeFile(p manifest.Problem) bool {
	switch p.Code {
	case manifest.CodeSyntax, manifest.CodeEmpty, manifest.CodeTooLarge, manifest.CodeOptions:
		return true
	}
	return false
}

func problem(p manifest.Problem) *journaletv1.ManifestProblem {
	text := p.Message
	if p.Remedy != "" {
		text += "; " + p.Remedy
	}
	line := uint32(0)
	if p.Line > 0 {
		line = uint32(p.Line)
	}
	return &journaletv1.ManifestProblem{Line: line, Field: bounded(p.Field), Code: string(p.Code), Message: bounded(text)}
}

func whole(name, code, message string) *journaletv1.ManifestFile {
	return &journaletv1.ManifestFile{
		Path: name, Unreadable: true, Problems: []*journaletv1.ManifestProblem{{Code: code, Message: message}},
	}
}

// bounded is a text fit for a fact: protobuf refuses what is not UTF-8.
func bounded(s string) string {
	if len(s) > maxTextBytes {
		s = s[:maxTextBytes]
	}
	return strings.ToValidUTF8(s, "")
}

package feed

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/source/manifest"
)

// What one file may put into a fact. The largest file thus stays well below the size of a record (1 MiB).
const (
	// CodeTooMany is the code of more pods or problems than a fact may name.
	CodeTooMany = "too-many"
	// CodeDefect is the code of a manifest on which the decoder failed.
	CodeDefect = "defect"
	// MaxPods bounds the pods of one file; each takes up to about 450 bytes.
	MaxPods = 1024
	// MaxProblems bounds the problems told of one file.
	MaxProblems = 100
	// maxTextBytes bounds each text of a problem.
	maxTextBytes = 1 << 10
)

// Decode makes of a file's content what a fact tells of it under this name, and gives the pods that must be stored before
// that. path is what its author knows it by: it enters UIDs and warnings.
func Decode(name, path string, data []byte, opts manifest.Options) (out *journaletv1.ManifestFile, pods []manifest.Parsed) {
	defer func() {
		if p := recover(); p != nil {
			// One file must not take the others along, and the panic's text may quote it.
			out, pods = Unreadable(name, CodeDefect, "the decoder failed on it; report this manifest as a bug of the agent"), nil
		}
	}()
	pods, problems := manifest.Decode(path, data, opts)
	if len(pods) > MaxPods {
		return Unreadable(name, CodeTooMany, fmt.Sprintf("holds %d pods, and a file may hold %d; split it into several files", len(pods), MaxPods)), nil
	}
	pods, problems = dropTooLarge(path, pods, problems)
	out = &journaletv1.ManifestFile{Path: name, Unreadable: len(pods) == 0 && slices.ContainsFunc(problems, concernsWholeFile)}
	for _, p := range pods {
		ref := &journaletv1.PodRef{Uid: string(p.Pod.UID), Namespace: p.Pod.Namespace, Name: p.Pod.Name, Digest: p.Digest}
		if at := p.Pod.CreationTimestamp; !at.IsZero() {
			ref.CreatedAt = timestamppb.New(at.Time)
		}
		out.Pods = append(out.Pods, ref)
	}
	for i, p := range problems {
		if i == MaxProblems {
			out.Problems = append(out.Problems, &journaletv1.ManifestProblem{
				Code: CodeTooMany, Message: fmt.Sprintf("%d more problems; mend these first", len(problems)-i),
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

// concernsWholeFile tells whether a problem leaves open what the author meant the file to hold.
func concernsWholeFile(p manifest.Problem) bool {
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
	return &journaletv1.ManifestProblem{Line: line, Field: truncate(p.Field), Code: string(p.Code), Message: truncate(text)}
}

// Unreadable is a file of which only a problem with the whole of it is known.
func Unreadable(name, code, message string) *journaletv1.ManifestFile {
	return &journaletv1.ManifestFile{
		Path: name, Unreadable: true, Problems: []*journaletv1.ManifestProblem{{Code: code, Message: message}},
	}
}

// truncate is a text fit for a fact: protobuf refuses what is not UTF-8.
func truncate(s string) string {
	if len(s) > maxTextBytes {
		s = s[:maxTextBytes]
	}
	return strings.ToValidUTF8(s, "")
}

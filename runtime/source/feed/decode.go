package feed

import (
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/messages/clean"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/defect"
	"github.com/journalet/journalet/runtime/source/manifest"
)

// Bounds and codes of one file in a fact. With manifest.MaxPods and manifest.MaxProblems, the largest file stays well
// below the size of a record (1 MiB).
const (
	// CodeDefect is the code of a manifest that made the decoder panic.
	CodeDefect = "defect"
	// maxTextBytes bounds each text of a problem.
	maxTextBytes = 1 << 10
)

// Decode decodes a file's content into its entry of a fact, under this name, and the pods to store before the fact.
// path is the file's path for its author; it is part of UIDs and warnings.
func Decode(
	name, path string, data []byte, opts manifest.Options,
) (out *journaletv1.ManifestFile, pods []manifest.Parsed) {
	defer defect.Recover(func(string) { // other files go on
		out, pods = Unreadable(name, CodeDefect, "the decoder failed on it; "+defect.ReportManifest), nil
	})
	pods, problems := manifest.Decode(path, data, opts)
	unreadable := len(pods) == 0 && slices.ContainsFunc(problems, concernsWholeFile)
	out = &journaletv1.ManifestFile{Path: name, Unreadable: unreadable}
	for _, p := range pods {
		ref := &journaletv1.PodRef{Uid: string(p.Pod.UID), Namespace: p.Pod.Namespace, Name: p.Pod.Name, Digest: p.Digest}
		if at := p.Pod.CreationTimestamp; !at.IsZero() {
			ref.CreatedAt = timestamppb.New(at.Time)
		}
		out.Pods = append(out.Pods, ref)
	}
	for _, p := range problems {
		out.Problems = append(out.Problems, problem(p))
	}
	return out, pods
}

// concernsWholeFile reports whether a problem leaves the file's pods unknown.
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
	return &journaletv1.ManifestProblem{
		Line: uint32(max(0, p.Line)), Field: truncate(p.Field), Code: string(p.Code), Message: truncate(text),
		Pod: truncate(p.Pod),
	}
}

// Unreadable returns an unreadable file with one problem.
func Unreadable(name, code, message string) *journaletv1.ManifestFile {
	return &journaletv1.ManifestFile{
		Path: name, Unreadable: true, Problems: []*journaletv1.ManifestProblem{{Code: code, Message: message}},
	}
}

// truncate returns the first maxTextBytes of a text: problems are divided among facts by their size.
func truncate(s string) string { return clean.Text(s, maxTextBytes) }

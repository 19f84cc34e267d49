package main

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/journalet/journalet/runtime/agent"
	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/runtime/source/validate"
)

// sarifLog is a log in the Static Analysis Results Interchange Format 2.1.0 (OASIS), as far as validate needs it.
type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool       sarifTool     `json:"tool"`
	ColumnKind string        `json:"columnKind"`
	Results    []sarifResult `json:"results"`
}

type sarifTool struct {
	Driver sarifDriver `json:"driver"`
}

type sarifDriver struct {
	Name           string      `json:"name"`
	Version        string      `json:"version"`
	InformationURI string      `json:"informationUri"`
	Rules          []sarifRule `json:"rules"`
}

type sarifRule struct {
	ID               string    `json:"id"`
	ShortDescription sarifText `json:"shortDescription"`
}

type sarifText struct {
	Text string `json:"text"`
}

type sarifResult struct {
	RuleID    string          `json:"ruleId"`
	RuleIndex int             `json:"ruleIndex"`
	Level     string          `json:"level"`
	Message   sarifText       `json:"message"`
	Locations []sarifLocation `json:"locations"`
}

type sarifLocation struct {
	Physical sarifPhysical  `json:"physicalLocation"`
	Logical  []sarifLogical `json:"logicalLocations,omitempty"`
}

type sarifPhysical struct {
	Artifact sarifArtifact `json:"artifactLocation"`
	Region   *sarifRegion  `json:"region,omitempty"`
}

type sarifArtifact struct {
	URI string `json:"uri"`
}

type sarifRegion struct {
	StartLine int `json:"startLine"`
}

type sarifLogical struct {
	FullyQualifiedName string `json:"fullyQualifiedName"`
}

// sarifRules describes the codes of findings.
var sarifRules = map[string]string{
	string(manifest.CodeTooLarge):       "More bytes, values or nesting than the agent reads",
	string(manifest.CodeSyntax):         "Neither YAML nor JSON",
	string(manifest.CodeEmpty):          "A file without an object",
	string(manifest.CodeUnknownKind):    "An object other than a pod, a list of pods, or what pods refer to",
	string(manifest.CodeUnknownField):   "A field that the type does not have",
	string(manifest.CodeDuplicateField): "The same key twice in one mapping",
	string(manifest.CodeWrongType):      "A value that does not fit its field's type",
	string(manifest.CodeRequired):       "A value is missing",
	string(manifest.CodeInvalid):        "A value, or two together, break a rule",
	string(manifest.CodeDuplicate):      "A value that must be unique is repeated",
	string(manifest.CodeUnsupported):    "A value outside an enumeration",
	string(manifest.CodeNotFound):       "A reference to something that the pod does not have",
	string(manifest.CodeStaticPod):      "A field that needs an API server",
	string(manifest.CodeNotYet):         "A valid field that this version does not support",
	string(manifest.CodeTooMany):        "Further problems are omitted",
	validate.CodeUnreadable:             "A file that cannot be read",
	validate.CodeWarning:                "A valid value that is probably not as it is meant",
	validate.CodeSameName:               "Two pods or two objects of one name",
	validate.CodeMissing:                "An object or a key that no file has",
	validate.CodeNode:                   "Something that depends on the node's name",
	"configuration":                     "A field of the configuration without effect",
}

// sarifOf returns findings as a log with one run.
func sarifOf(r *validate.Result) *sarifLog {
	run := sarifRun{ColumnKind: "utf16CodeUnits", Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{Name: "journalet", Version: agent.Version,
		InformationURI: "https://github.com/journalet/journalet", Rules: []sarifRule{}}
	for _, f := range r.Findings {
		rule := slices.IndexFunc(run.Tool.Driver.Rules, func(r sarifRule) bool { return r.ID == f.Code })
		if rule < 0 {
			rule = len(run.Tool.Driver.Rules)
			text := sarifRules[f.Code]
			if text == "" {
				text = f.Code
			}
			run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{f.Code, sarifText{text}})
		}
		text := f.Message
		if f.Field != "" {
			text = f.Field + ": " + text
		}
		if f.Remedy != "" {
			text += "; " + f.Remedy
		}
		at := sarifLocation{Physical: sarifPhysical{Artifact: sarifArtifact{sarifURI(f.Path)}}}
		if f.Line > 0 {
			at.Physical.Region = &sarifRegion{f.Line}
		}
		if f.Field != "" {
			at.Logical = []sarifLogical{{f.Field}}
		}
		run.Results = append(run.Results, sarifResult{f.Code, rule, string(f.Level), sarifText{text}, []sarifLocation{at}})
	}
	return &sarifLog{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []sarifRun{run}}
}

// sarifURI returns a path as a URI, relative to the working directory where it is below it: what reads the log resolves
// it in a checkout.
func sarifURI(path string) string {
	if filepath.IsAbs(path) {
		dir, _ := os.Getwd() // empty if it is gone
		if rel, err := filepath.Rel(dir, path); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			path = rel
		} else {
			return (&url.URL{Scheme: "file", Path: path}).String()
		}
	}
	return (&url.URL{Path: filepath.ToSlash(filepath.Clean(path))}).String()
}

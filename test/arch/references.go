package arch

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	adrs     = regexp.MustCompile(`\bADRs? \d{3}(?:(?:, | and |, and )\d{3})*`)
	number   = regexp.MustCompile(`\d{3}`)
	making   = regexp.MustCompile("`make ([a-z][a-z0-9-]*)")
	targets  = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)
	files    = regexp.MustCompile(`[\w./-]*\w\.(?:go|md|proto|sh)\b`)
	members  = regexp.MustCompile(`\b[A-Za-z]\w*\.[A-Z]\w*\b`)
	compound = regexp.MustCompile(`\b(?:[a-z]+[a-z0-9]*[A-Z]|[A-Z]+[a-z0-9]+[A-Z]|[A-Za-z0-9]+_)\w*`)
	remarks  = regexp.MustCompile(`(?m)(?:^\s*#|//).*$`)
	anyWord  = regexp.MustCompile(`[A-Za-z_]\w*`)
	spans    = regexp.MustCompile("`([^`]+)`")                 // what is set as code within a line
	testName = regexp.MustCompile(`^(?:Test|Fuzz)[A-Z]\w*$`)   // what `go test` runs
	patterns = regexp.MustCompile(`\S*(?:[*<>{}…$]|\.{3})\S*`) // names of many files, or of none in particular
)

// index is everything that a comment or a document can name.
type index struct {
	tree    *tree
	bases   map[string]bool            // names of files without their directories
	targets map[string]bool            // of make
	words   map[string]bool            // identifiers of all code, declared or used, and words of literals
	members map[string]map[string]bool // of our packages and types, by their names
}

// theirs are the names in comments and documents that no code of the repository has.
var theirs = strings.Fields(`
	podCIDRs CertificateSigningRequest
	OnPodSandboxReady
	Kubelet:    computeInitContainerActions computePodActions computePodResizeAction containerBackOffPeriod getPhase
	            buildSignalToNodeReclaimFuncs buildSignalToRankFunc IsLocalEphemeralVolume newManagerImpl podCleanupPollFreq podCleanupTimeout
	            UpdateContainerFsThresholds evictionMessage imageBackOff immediateEvictionGracePeriodSeconds maxMsgSize maxProbeRetries maxRespBodyLength
	            minimumGracePeriodInSeconds
	            podContainerManagerImpl qosContainerManagerImpl sortPendingResizes validateMemoryResizeAction
	            validateResizePolicy ErrPostStartHook HandlePodRemoves HandlePodUpdates MaxPerPodContainerCount
	            MaxPodTerminationMessageLogLength MaxShares MilliCPUToCPU MinMilliCPULimit MinQuotaPeriod MinShares
	            RestartingAllContainers SyncPodType SyncTerminatingPod SystemCriticalPriority UnexpectedAdmissionError
	            ValidatePodResize ValidatePodUpdate
            CheckLimitsForResolvConf EvictionThresholdMet FailedCreatePodContainer FailedNodeDeclaredFeaturesCheck
            FailedPodSandBoxStatus FailedValidation
            InvalidImageID KubeletSetupFailed PossibleMemoryBackedVolumesOnDisk SystemOOM
            SuccessfulAttachVolume MountDevice SetUpDevice VolumeAttachmentLimitExceededReason
            kubelet_pod_worker_start_duration_seconds
	Kubernetes: nodeAllocatableUpdatePeriodSeconds MutableCSINodeAllocatableCount attachError errorCode
	            AllocationResultsMaxSize DriverNameMaxLength ResourceSlices
	            allocatedResources cAdvisor requiresRepublish seLinuxMount RecoverVolumeExpansionFailure usageNanoCores
	            container_last_seen
	            hostnameOverride nodeStatus AppArmor ConfigMaps WebSocket
	Runtimes:   image_id stats_collect_period restrict_oom_score_adj Container.Delete ImageService
	            K8sContainerdNamespace SystemdCgroup
	Modules:    encoding.CodecV2 nats.go CodecV2 FileFsyncer FilePassthroughFder gRPC NodeCreater NodeOpendirHandler
	            NodeOpener NodeWrapChilder
	Linux:      io_uring oom_score_adj sockaddr_un CAP_SYS_RESOURCE eMMC GiB
	Examples:   camelCase snake_case namespace_name_uid pod1_2 SandboxGone SOURCE_FILE TestName TestStop2
	            TestStopIsRepeatedWithTheRemainingGracePeriod
	Run time:   runtime/0 bus/credentials
`)

// checkReferences wants every file, decision record, make target, test and function that a comment or a document names
// to be there: a claim of docs/SCOPE.md or docs/EVIDENCE.md must be shown. What others own, as the kubelet's functions,
// is in the table theirs, and systemd's settings are its own.
func checkReferences(t *tree) {
	ix := &index{tree: t, bases: map[string]bool{}, targets: map[string]bool{}, words: map[string]bool{}}
	ix.members = map[string]map[string]bool{}
	for _, name := range t.names {
		ix.bases[path.Base(name)] = true
		ix.add(name)
	}
	for _, f := range t.gos {
		ix.addGo(f)
	}
	for _, f := range t.texts {
		if f.path == "Makefile" {
			for _, m := range targets.FindAllStringSubmatch(f.text, -1) {
				ix.targets[m[1]] = true
			}
		}
		if path.Ext(f.path) != ".md" {
			ix.add(remarks.ReplaceAllString(f.text, ""))
		}
	}
	for _, p := range t.passages(comments | docs) {
		if path.Ext(p.path) != ".service" {
			ix.references(&p)
		}
	}
}

// add makes the words of a text known as names.
func (ix *index) add(text string) {
	for _, w := range anyWord.FindAllString(text, -1) {
		ix.words[w] = true
	}
}

func (ix *index) addGo(f *file) {
	declare := func(owner, name string) {
		if ix.members[owner] == nil {
			ix.members[owner] = map[string]bool{}
		}
		ix.members[owner][name] = true
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			ix.words[n.Name] = true
		case *ast.BasicLit:
			if n.Kind == token.STRING && f.dir() != "test/arch" {
				ix.add(n.Value)
			}
		case *ast.TypeSpec:
			for _, name := range fields(n.Type) {
				declare(n.Name.Name, name)
			}
		}
		return true
	})
	for _, d := range f.ast.Decls {
		for _, n := range topNames(d) {
			declare(f.ast.Name.Name, n.id.Name) // host.Stored is said for a method too
			if n.receiver != nil {
				declare(n.receiver.Name, n.id.Name)
			}
		}
	}
}

// fields returns the names of a struct's fields or of an interface's methods. What is embedded may have any: "*".
func fields(e ast.Expr) []string {
	var list *ast.FieldList
	switch e := e.(type) {
	case *ast.StructType:
		list = e.Fields
	case *ast.InterfaceType:
		list = e.Methods
	default:
		return nil
	}
	var out []string
	for _, f := range list.List {
		if len(f.Names) == 0 {
			out = append(out, "*")
		}
		for _, id := range f.Names {
			out = append(out, id.Name)
		}
	}
	return out
}

// references reports what p names that is not there. What is found to be a file is not read as a member, nor that as a
// word.
func (ix *index) references(p *passage) {
	text := []byte(p.text)
	blank(text, urls.FindAllIndex(text, -1))
	each := func(names *regexp.Regexp, what string, problem func(name string) string) {
		for _, m := range names.FindAllSubmatchIndex(text, -1) {
			name := string(text[m[len(m)-2]:m[len(m)-1]])
			if why := problem(name); why != "" {
				ix.tree.report(p.path, p.lineAt(m[0]), "names %s%s: %s", what, name, why)
				blank(text, [][]int{m[len(m)-2:]})
			}
		}
	}
	each(adrs, "", ix.adrs)
	each(making, "make ", func(target string) string {
		if ix.targets[target] {
			return ""
		}
		return "no such target in the Makefile"
	})
	if p.kind == docs {
		each(spans, "", ix.span)
	}
	blank(text, patterns.FindAllIndex(text, -1))
	each(files, "", func(name string) string { return ix.file(p.path, name) })
	blank(text, files.FindAllIndex(text, -1))
	each(members, "", ix.member)
	each(compound, "", ix.name)
}

// adrs returns what is wrong with the numbers of decision records, "" where nothing is.
func (ix *index) adrs(list string) string {
	for _, n := range number.FindAllString(list, -1) {
		isIt := func(f string) bool { return strings.HasPrefix(f, "docs/adr/"+n+"-") }
		if !slices.ContainsFunc(ix.tree.names, isIt) {
			return "no such decision record in docs/adr: " + n
		}
	}
	return ""
}

// span returns what is wrong with a name that a document sets as code, "" where nothing is.
func (ix *index) span(name string) string {
	top, _, isPath := strings.Cut(name, "/")
	switch {
	case slices.Contains(theirs, name) || slices.Contains(theirs, path.Dir(name)) || patterns.MatchString(name):
		return ""
	case testName.MatchString(name) && !ix.words[name]:
		return "no such test: it was renamed, or the claim has lost its proof"
	case !isPath && path.Ext(name) == ".txt" && !ix.bases[name]:
		return "no such scenario in test/scenario/testdata"
	case isPath && slices.Contains(topDirs, top) && !ix.tree.exists(name):
		return "no such file or directory"
	}
	return ""
}

// file returns what is wrong with the name of a file in a comment or document, "" where nothing is.
func (ix *index) file(from, name string) string {
	clean := strings.TrimPrefix(path.Clean(name), "/")
	isIt := func(f string) bool { return strings.HasSuffix("/"+f, "/"+clean) }
	others := slices.Contains(theirs, name) || strings.HasPrefix(name, "pkg/") // of Kubernetes
	ending := name[0] == '.' || name == "_test.go"
	if others || ending || slices.ContainsFunc(ix.tree.names, isIt) || ix.tree.exists(path.Join(path.Dir(from), name)) {
		return ""
	}
	return "no such file"
}

// name returns what is wrong with an identifier, "" where nothing is. A part of a longer one will do, as START_LOST of
// an enum's value, and so will a prefix as of evolve_calls.go.
func (ix *index) name(name string) string {
	if ix.words[name] || slices.Contains(theirs, name) || len(name) < 4 {
		return ""
	}
	for w := range ix.words {
		if token.IsExported(name) && len(name) >= 8 && strings.Contains(w, name) ||
			strings.HasSuffix(name, "_") && strings.HasPrefix(w, name) {
			return ""
		}
	}
	return "no code has this name: it was renamed, or belongs into the table theirs"
}

// member returns what is wrong with a name of a package or type of ours, "" where nothing is.
func (ix *index) member(name string) string {
	owner, member, _ := strings.Cut(name, ".")
	known := ix.members[owner]
	if known == nil || known[member] || known["*"] || slices.Contains(theirs, name) {
		return ""
	}
	return owner + " of ours has no " + member
}

#!/usr/bin/env bash
# Compares this checkout with the last release: both programs are built, the benchmarks of test/load measure them in
# turn, five times, and the ratios are printed. It fails if one is beyond the limit in guard.go.
# BASE names the commit to compare with. Without it, it is the last release by tag, not counting one of this commit;
# where no tag is, the commit of the newest release in test/promises.
# It needs neither root nor a container runtime.
set -euo pipefail
cd "$(dirname "$0")/../.."

base=${BASE:-$(git describe --tags --abbrev=0 --match 'v[0-9]*' --exclude '*-*' HEAD^ 2>/dev/null || true)}
if [ -z "$base" ]; then
	base=$(cat "$(printf '%s\n' test/promises/released/v*/commit | sort -V | tail -n 1)")
fi
commit=$(git rev-parse --verify --quiet "$base^{commit}") || {
	echo "bench-guard: this clone has no commit $base: git fetch --unshallow --tags, or name another by BASE=" >&2
	exit 2
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/source"
git archive "$commit" | tar -x -C "$work/source"
# The copy is in no repository, so neither program gets what Go records of one.
go build -buildvcs=false -o "$work/this" ./cmd/journalet
(cd "$work/source" && go build -buildvcs=false -o "$work/base" ./cmd/journalet)
go test -c -o "$work/load.test" ./test/load
(cd test/bench && go build -o "$work/bench" .)

once=(-test.run '^$' -test.benchtime 1x -test.timeout 10m)
# One restart takes 0.1 to 0.2 s of two cores: a round has the mean of several.
restarts=8
# measure PROGRAM BENCHMARK [FLAG...] measures once. A benchmark that fails prints why, and its figures are missing.
measure() {
	"$work/load.test" -program "$work/$1" "${once[@]}" -test.bench "$2" "${@:3}" 2>&1 |
		sed "s/^/$1 /" | tee -a "$work/results" || true
}
for programs in "this base" "base this" "this base" "base this" "this base"; do
	for program in $programs; do
		measure "$program" '^BenchmarkBurstBesideObservers$/^observers=0$'
		measure "$program" '^BenchmarkRecovery$' -pods 150 -test.benchtime "${restarts}x"
		measure "$program" '^Benchmark(Exit|Idle|Command)$' -pods 150
	done
done
echo
echo "$(git describe --tags --always --dirty) (this) and $base, $(git show -s --format='%h of %cs' "$commit") (base):" \
	"medians of five rounds in turn (smallest to largest), and of their ratios; load $(cut -d' ' -f1-3 /proc/loadavg)"
echo
"$work/bench" -guard "$work/results"

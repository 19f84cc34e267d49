#!/usr/bin/env bash
# Compares proto/ with each release, whose contract is kept in test/promises/released: a change that breaks journals
# recorded by one is refused. Before the first release it compares with the base commit: a change that breaks journals
# recorded there needs another messages.JournalFormat (docs/adr/025-before-0.1.0.md).
# The base is $BREAKING_BASE, else where this branch left main; on main itself, the commit before.
# BUF names the buf binary.
set -euo pipefail
cd "$(dirname "$0")/../.."

base() {
  local head ref b
  head=$(git rev-parse -q --verify HEAD) || return 1
  if [ -n "${BREAKING_BASE:-}" ]; then
    git rev-parse --verify "$BREAKING_BASE^{commit}"
    return
  fi
  for ref in origin/main main; do
    b=$(git merge-base "$ref" HEAD 2>/dev/null) || continue
    # Nothing of our own since main: uncommitted work is compared with HEAD, a clean tree with its parent.
    if [ "$b" = "$head" ] && [ -z "$(git status --porcelain -- proto)" ]; then
      git rev-parse -q --verify 'HEAD^'
    else
      echo "$b"
    fi
    return
  done
  return 1
}

# format prints the number that JournalFormat has in the Go file on stdin, 0 for none.
format() { sed -n 's/^const JournalFormat = \([0-9]*\)$/\1/p' | grep . || echo 0; }

releases=(test/promises/released/*/proto.binpb)
if [ -e "${releases[0]}" ]; then
  for image in "${releases[@]}"; do
    release=$(basename "$(dirname "$image")")
    if ! "$BUF" breaking --against "$image"; then
      echo "breaking: journals of $release and later must stay readable: undo the changes above" >&2
      exit 1
    fi
    echo "breaking: compatible with $release"
  done
fi

if ! commit=$(base); then
  if [ -n "${BREAKING_BASE:-}" ]; then
    echo "breaking: $BREAKING_BASE is no commit here: fetch it, or unset BREAKING_BASE" >&2
    exit 1
  fi
  echo "breaking: no earlier commit to compare with"
  exit 0
fi
if [ -z "$(git ls-tree -r --name-only "$commit" -- proto | grep '\.proto$' || true)" ]; then
  echo "breaking: no .proto files in $commit, nothing to compare with"
  exit 0
fi

old=$(mktemp -d)
trap 'rm -rf "$old"' EXIT
git archive "$commit" proto | tar -x -C "$old"
cp buf.yaml "$old/"
if "$BUF" breaking --against "$old"; then
  echo "breaking: compatible with $commit"
  exit 0
fi
was=$({ git show "$commit:messages/encoding.go" 2>/dev/null || true; } | format)
now=$(format <messages/encoding.go)
if [ "$now" -le "$was" ]; then
  echo "breaking: the changes above break journals recorded at $commit:" \
    "raise messages.JournalFormat above $was, then make histories" >&2
  exit 1
fi
echo "breaking: the changes above are allowed: JournalFormat was raised from $was to $now, and no release has it"

#!/usr/bin/env bash
# Compares proto/ with an earlier commit: what an older version wrote into a journal must stay readable.
# The earlier commit is $BREAKING_BASE, else where this branch left main; on main itself, the commit before.
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
"$BUF" breaking --against "$old"
echo "breaking: compatible with $commit"

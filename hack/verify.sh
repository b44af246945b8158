#!/usr/bin/env bash
# Checks that generated files (named by the arguments), modules and formatting are as they should be. It compares with
# the tree as it is, so it is of use before a commit as well; in a fresh checkout that is the commit.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
failed=0

complain() {
	echo "verify: $*" >&2
	failed=1
}

snapshot() {
	git ls-files --cached --others --exclude-standard -- "$@" | sort -u | while read -r file; do
		if [ -f "$file" ]; then echo "$(git hash-object "$file") $file"; fi
	done
}

before=$(snapshot "$@")
make generate-code GO="$go"
after=$(snapshot "$@")
if [ "$before" != "$after" ]; then
	{ diff <(echo "$before") <(echo "$after") || true; } | sed -n 's/^[<>] [0-9a-f]* /  /p' | sort -u >&2
	complain 'the generated files above were out of date; they are right now, commit them'
fi

while read -r module; do
	if ! (cd "$module" && "$go" mod tidy -diff); then
		complain "$module/go.mod is not tidy; run 'go mod tidy' in $module"
	fi
done < <(git ls-files --cached --others --exclude-standard -- go.mod '*/go.mod' | xargs -n1 dirname)

unformatted=$(git ls-files --cached --others --exclude-standard -- '*.go' | xargs -r gofmt -l)
if [ -n "$unformatted" ]; then
	echo "$unformatted" >&2
	complain "the files above are not formatted; run 'gofmt -w' on them"
fi

if ! "$go" vet ./...; then
	complain 'go vet complains'
fi
exit "$failed"

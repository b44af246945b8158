#!/usr/bin/env bash
# Checks that generated files (named by the arguments), modules and formatting are as they should be, and that no known
# vulnerability of a dependency can be reached. It compares with the tree as it is, so it is of use before a commit as well;
# in a fresh checkout that is the commit. VULNDB names another database of vulnerabilities than that of the Go project.
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

# check_vulnerabilities scans one small package first: that tells within a bounded time whether the database answers.
check_vulnerabilities() {
	local database=${VULNDB:-https://vuln.go.dev} scanner said status=0
	if ! scanner=$("$go" tool -modfile=hack/tools/govulncheck/go.mod -n govulncheck); then
		complain 'govulncheck cannot be built'
		return
	fi
	said=$(timeout 60 "$scanner" -db "$database" ./internal/version 2>&1) || status=$?
	if [ "$status" = 124 ] || [[ $said == *'fetching vulnerabilities'* ]]; then
		echo "verify: SKIPPED the check for known vulnerabilities: the database $database could not be reached" >&2
	elif ! "$scanner" -db "$database" ./...; then
		complain 'govulncheck found what is listed above; update the modules it names'
	fi
}

before=$(snapshot "$@")
make generate-code GO="$go"
if ! command -v npm >/dev/null; then
	echo 'verify: SKIPPED the check of the page of kubectl firmware ui: there is no npm' >&2
elif ! make ui; then
	complain 'the page of kubectl firmware ui cannot be built'
fi
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
check_vulnerabilities
exit "$failed"

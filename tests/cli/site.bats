#!/usr/bin/env bats
# make site: the documents and manual pages as HTML.

load helpers

setup() { common_setup; }

@test "every document and manual page becomes a page, and all their links and pictures are there" {
	local man=${COLLCTL%/*}/man page
	command -v cmark-gfm mandoc || skip 'cmark-gfm or mandoc is missing: the site was not made'
	[[ -d $man ]] || skip 'no manual pages are built beside the program'
	"$PYTHON" "$ROOT/docs/site/site.py" site "$man"/*.[15] "$ROOT/man/collctl.3"
	"$PYTHON" "$ROOT/docs/site/links.py" site
	for page in index docs/{tutorial,recipes,guide,launchers,TLS,FAULTS,scale,comparison} man/collctl{.1,.3,-json.5,-invite.1}; do
		grep -q '<h1' "site/$page.html" || fail "$page"
	done
	cmp "$ROOT/docs/allreduce.svg" site/docs/allreduce.svg
	grep -q '<a href="../man/collctl-check.1.html">check</a>' site/docs/guide.html
	grep -q 'href="collctl-run.1.html"' site/man/collctl.1.html
	# Nothing is fetched from elsewhere.
	run grep -rE '<(script|img|link)[^>]*"(https?:)?//' site
	assert_failure
}

@test "a link that leads nowhere is named" {
	mkdir -p site/docs
	cat >site/index.html <<'END'
<h1 id="top">Top</h1><a href="#top"></a><a href="docs/a.html#part"></a><a href="https://example.org/"></a><a href="docs/a.html"></a>
END
	echo '<h2 id="part">Part</h2><a href="../index.html#top"></a>' >site/docs/a.html
	"$PYTHON" "$ROOT/docs/site/links.py" site
	cat >>site/docs/a.html <<'END'
<h2 id="part">Part</h2><a href="b.html"></a><a href="../index.html#bottom"></a><a href="#%70arts"></a><img src="/a.svg">
<a href="../../etc/passwd"></a><a href="http://example.org/"></a>
END
	run -1 "$PYTHON" "$ROOT/docs/site/links.py" site
	assert_output - <<'END'
links: docs/a.html: two elements have the id part
links: docs/a.html: b.html: no such file
links: docs/a.html: ../index.html#bottom: no such heading
links: docs/a.html: #%70arts: no such heading
links: docs/a.html: /a.svg: a link within the site is relative, and one to another site has https://
links: docs/a.html: ../../etc/passwd: a link within the site is relative, and one to another site has https://
links: docs/a.html: http://example.org/: a link within the site is relative, and one to another site has https://
END
}

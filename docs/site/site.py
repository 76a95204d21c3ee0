#!/usr/bin/env python3
"""Make the documents a site: site.py OUT MANUAL-PAGE...

Each document becomes OUT/PATH.html, where PATH is its path in the repository, so that links between documents stay as they are but
for the suffix. cmark-gfm renders Markdown, mandoc the manual pages; links.py checks the links of the result.
"""
import html
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), '..', '..'))

# The navigation: groups of documents with their titles. Every file docs/*.md has a place here.
GROUPS = [
    ('Start', [
        ('README.md', 'Overview'),
        ('docs/tutorial.md', 'Tutorial'),
        ('docs/recipes.md', 'Recipes'),
        ('docs/guide.md', 'Guide'),
        ('docs/launchers.md', 'Launchers'),
        ('python/README.md', 'Python'),
    ]),
    ('Background', [
        ('docs/comparison.md', 'Comparison'),
        ('docs/scale.md', 'Many ranks'),
        ('docs/FAULTS.md', 'Faults'),
        ('SECURITY.md', 'Security'),
        ('docs/TLS.md', 'TLS'),
        ('CHANGELOG.md', 'Changes'),
    ]),
    ('Code', [
        ('docs/ARCHITECTURE.md', 'Architecture'),
        ('lib/net/PROTOCOL.md', 'Protocol'),
        ('CONTRIBUTING.md', 'Contributing'),
    ]),
]
MAN_SITE = 'https://manpages.debian.org/'  # manual pages of other programs


def run(*command):
    try:
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, encoding='utf-8').stdout
    except FileNotFoundError:
        sys.exit(f"site: {command[0]} is missing; 'make deps-test' installs it")


def slug(heading, seen):
    """The anchor of a heading, as hosts of Git repositories make it; one that is there already gets a number."""
    text = html.unescape(re.sub('<[^>]*>', '', heading)).lower()
    name = re.sub(r'[^\w -]', '', text).replace(' ', '-')
    n = seen.get(name, 0)
    seen[name] = n + 1
    return f'{name}-{n}' if n else name


def page_of(path):
    """The path in the site of the document or manual page `path`."""
    return 'index.html' if path == 'README.md' else re.sub(r'\.md$', '', path) + '.html'


def relative(target, source):
    """A link from the page `source` to the page `target`."""
    return os.path.relpath(target, os.path.dirname(source) or '.')


class Site:
    def __init__(self, out, manual):
        self.out = out
        self.manual = {os.path.basename(path): path for path in manual}
        self.listings = {}  # files of the repository that documents link to, and their pages

    def nav(self, source, headings):
        """The navigation of the page `source`: all pages, and the headings of this one."""
        def link(target, title):
            here = ' aria-current="page"' if target == source else ''
            return f'<a href="{relative(target, source)}"{here}>{html.escape(title)}</a>'

        lines = []
        for group, documents in GROUPS:
            lines.append(f'<h2>{group}</h2>\n<ul>')
            for path, title in documents:
                inner = ''
                if page_of(path) == source and headings:
                    inner = '<ul>' + ''.join(f'<li><a href="#{i}">{text}</a></li>' for i, text in headings) + '</ul>'
                lines.append(f'<li>{link(page_of(path), title)}{inner}</li>')
            lines.append('</ul>')
        lines.append('<h2>Manual</h2>\n<ul class="manual">')
        for name in sorted(self.manual, key=lambda n: (bool(re.search(r'-.*\.1$', n)), n[-1], n)):
            title = re.sub(r'^collctl-(.*)\.1$', r'\1', name)  # a command's page; the others keep their sections
            lines.append(f'<li>{link(f"man/{name}.html", title)}</li>')
        lines.append('</ul>')
        return '\n'.join(lines)

    def write(self, target, title, body, headings=()):
        page = f'''<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{html.escape(title)}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="{relative('style.css', target)}">
</head>
<body>
<header><a href="{relative('index.html', target)}">collctl</a> <a class="to-nav" href="#pages">All pages</a></header>
<main>
{body}
</main>
<nav id="pages" aria-label="All pages">
{self.nav(target, headings)}
</nav>
</body>
</html>
'''
        path = os.path.join(self.out, target)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w', encoding='utf-8') as f:
            f.write(page)

    def link(self, path, href):
        """What the link `href` of the document `path` is in the site."""
        if re.match('[a-z]+:|#', href):
            return href
        file, _, anchor = href.partition('#')
        file = os.path.normpath(os.path.join(os.path.dirname(path), file))
        if any(file == p for _, documents in GROUPS for p, _ in documents):
            target = page_of(file)
        elif file.startswith('..') or not os.path.isfile(os.path.join(ROOT, file)):
            return href  # links.py names it
        elif file.endswith(('.svg', '.png')):
            target = file
            os.makedirs(os.path.dirname(os.path.join(self.out, file)), exist_ok=True)
            shutil.copyfile(os.path.join(ROOT, file), os.path.join(self.out, file))
        else:
            target = self.listings[file] = file + '.html'
        return relative(target, page_of(path)) + (anchor and '#' + anchor)

    def document(self, path, title):
        body = run('cmark-gfm', '-e', 'table', '-e', 'autolink', os.path.join(ROOT, path))
        seen, headings = {}, []

        def heading(m):
            level, text = m.groups()
            anchor = slug(text, seen)
            if level == '2':
                headings.append((anchor, re.sub('</?a[^>]*>', '', text)))
            return f'<h{level} id="{anchor}"><a href="#{anchor}">{text}</a></h{level}>'

        body = re.sub(r'<h([1-6])>(.*?)</h\1>', heading, body, flags=re.S)
        body = re.sub(' (href|src)="([^"]*)"', lambda m: f' {m[1]}="{self.link(path, m[2])}"', body)
        body = re.sub('<img src="([^"]*)".*?>', r'<a href="\1">\g<0></a>', body)
        body = re.sub('<code>([^<]{1,22})</code>', r'<code class="short">\1</code>', body)
        body = re.sub('<table>.*?</table>', r'<div class="wide" tabindex="0">\g<0></div>', body, flags=re.S)
        self.write(page_of(path), title if path == 'README.md' else f'{title} - collctl', body, headings)

    def manual_page(self, name, path):
        body = run('mandoc', '-Thtml', '-Ofragment,man=%N.%S.html', path)
        body = re.sub('<table class="(head|foot)">.*?</table>', '', body, flags=re.S)
        body = re.sub('(</?h)([1-5])', lambda m: m[1] + str(int(m[2]) + 1), body)  # h1 is the page's title
        body = re.sub(r'href="([^"#]+\.\d)\.html"', lambda m: m[0] if m[1] in self.manual else f'href="{MAN_SITE}{m[1]}"', body)
        title = '{}({})'.format(*name.rsplit('.', 1))
        self.write(f'man/{name}.html', title, f'<h1>{title}</h1>\n{body}')

    def build(self):
        shutil.rmtree(self.out, ignore_errors=True)
        os.makedirs(self.out)
        shutil.copyfile(os.path.join(ROOT, 'docs/site/style.css'), os.path.join(self.out, 'style.css'))
        for _, documents in GROUPS:
            for path, title in documents:
                self.document(path, title)
        for name, path in self.manual.items():
            self.manual_page(name, path)
        for file, target in self.listings.items():
            with open(os.path.join(ROOT, file), encoding='utf-8') as f:
                self.write(target, file, f'<h1>{file}</h1>\n<pre><code>{html.escape(f.read())}</code></pre>')


def main():
    if len(sys.argv) < 3:
        sys.exit('usage: site.py OUT MANUAL-PAGE...')
    placed = {path for _, documents in GROUPS for path, _ in documents}
    for name in os.listdir(os.path.join(ROOT, 'docs')):
        if name.endswith('.md') and f'docs/{name}' not in placed:
            sys.exit(f'site: docs/{name} has no place in GROUPS of docs/site/site.py')
    Site(sys.argv[1], sys.argv[2:]).build()


if __name__ == '__main__':
    main()

#!/usr/bin/env python3
"""Check the links of a folder of HTML pages: links.py FOLDER

One that leads to no file of the folder, or to no element of the page, is printed, and the exit code is 1. Links to other sites are not
followed.
"""
import html.parser
import os
import re
import sys
import urllib.parse


class Page(html.parser.HTMLParser):
    """What one page names: the ids of its elements, and its links."""
    def __init__(self, path):
        super().__init__()
        self.ids, self.twice, self.links = set(), [], []
        with open(path, encoding='utf-8') as f:
            self.feed(f.read())

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == 'id':
                if value in self.ids:
                    self.twice.append(value)
                self.ids.add(value)
            elif name in ('href', 'src'):
                self.links.append(value or '')


def broken_links(folder):
    pages = {}
    for where, _, names in os.walk(folder):
        for name in names:
            if name.endswith('.html'):
                path = os.path.join(where, name)
                pages[os.path.relpath(path, folder)] = Page(path)
    errors = []
    for name, page in sorted(pages.items()):
        errors += [f'{name}: two elements have the id {i}' for i in page.twice]
        for link in page.links:
            if re.match('https://|mailto:|data:', link):
                continue
            path, _, anchor = link.partition('#')
            target = os.path.normpath(os.path.join(os.path.dirname(name), urllib.parse.unquote(path))) if path else name
            if ':' in path or path.startswith('/') or target.startswith('..'):
                errors.append(f'{name}: {link}: a link within the site is relative, and one to another site has https://')
            elif not os.path.isfile(os.path.join(folder, target)):
                errors.append(f'{name}: {link}: no such file')
            elif anchor and (target not in pages or urllib.parse.unquote(anchor) not in pages[target].ids):
                errors.append(f'{name}: {link}: no such heading')
    return errors


def main():
    if len(sys.argv) != 2:
        sys.exit('usage: links.py FOLDER')
    errors = broken_links(sys.argv[1])
    for error in errors:
        print(f'links: {error}', file=sys.stderr)
    sys.exit(1 if errors else 0)


if __name__ == '__main__':
    main()

"""Makes pages of a site from those of the repository: the README opens the first page, and links that lead out of docs lead to the repository."""

import html.parser
import os
import posixpath
import re

REF = os.environ.get("SITE_REF", "main")
LINK = re.compile(r"(\]\()((?:\.\./)+[^)#\s]+)")
SECTIONS = [("Tasks", "tasks"), ("Concepts", "concepts"), ("Kinds", "kinds"), ("Drivers", "drivers"), ("Runbooks", "runbooks"),
            ("Reference", "reference"), ("Contributing", "contributing"), ("Decisions", "adr")]
START = ["quickstart.md", "install.md", "kubectl-firmware.md", "view.md", "try-your-policy.md", "local-mode.md", "state-directory.md"]


def on_config(config):
    docs = config["docs_dir"]
    def pages(folder):
        return sorted((f"{folder}/{n}" for n in os.listdir(os.path.join(docs, folder)) if n.endswith(".md")),
                      key=lambda p: (not p.endswith("README.md"), p))
    config["nav"] = ["README.md", {"Start": START}] + [{title: pages(folder)} for title, folder in SECTIONS]
    return config


def on_files(files, config):
    for f in [f for f in files if f.src_path.endswith(".go")]:
        files.remove(f)
    return files


def on_page_markdown(markdown, page, config, files):
    here = posixpath.dirname(page.file.src_path)
    if page.file.src_path == "README.md":
        with open(os.path.join(config["docs_dir"], "..", "README.md"), encoding="utf-8") as f:
            intro = f.read().split("\n## What you declare")[0]
        markdown = re.sub(r"\]\((?!docs/|https:)", "](../", intro).replace("](docs/", "](") + "\n\n" + markdown.replace("# Documentation", "## Documentation", 1)

    def outward(match):
        path = posixpath.normpath(posixpath.join("docs", here, match.group(2)))
        if path.startswith("docs/"):
            return match.group(0)
        kind = "tree" if os.path.isdir(os.path.join(config["docs_dir"], "..", path)) else "blob"
        return f"{match.group(1)}{config['repo_url']}/{kind}/{REF}/{path}"

    return LINK.sub(outward, markdown)


class Page(html.parser.HTMLParser):
    """What a built page has: the ids of its places, the links to places, and what it loads."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loads = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids.add(attrs.get("id"))
        if tag == "a" and attrs.get("href"):
            self.links.append(attrs["href"])
        if tag in ("script", "img", "iframe") or tag == "link" and attrs.get("rel") == "stylesheet":
            self.loads.append(attrs.get("src") or attrs.get("href") or "")


def on_post_build(config):
    site, pages, wrong = config["site_dir"], {}, []
    for folder, _, names in os.walk(site):
        for name in names:
            if name.endswith(".html") and name != "404.html":
                path = os.path.relpath(os.path.join(folder, name), site)
                with open(os.path.join(site, path), encoding="utf-8") as f:
                    pages[path] = Page(f.read())
    for path, page in pages.items():
        wrong += [f"{path} loads {u}" for u in page.loads if "//" in u]
        for link in page.links:
            target, _, place = link.partition("#")
            if "//" in link or not place or place == "__skip":
                continue
            target = posixpath.normpath(posixpath.join(posixpath.dirname(path), target)) if target else path
            if target in pages and place not in pages[target].ids:
                wrong.append(f"{path} links to {target}#{place}, where nothing has that name")
    if wrong:
        raise SystemExit("site: " + "\n".join(wrong))

"""What a page of HTML holds."""

from __future__ import annotations

from html.parser import HTMLParser


class Page(HTMLParser):
    """Elements with their attributes, words, and the text of scripts, in their order and by id."""

    def __init__(self, text: str):
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.script: dict[str | None, str] = {}
        self.words: list[str] = []
        self.inside = ""
        self.feed(text)

    @property
    def links(self) -> list[str | None]:
        return [attributes[key] for _, attributes in self.elements for key in ("src", "href") if key in attributes]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.inside = tag

    def handle_data(self, data: str) -> None:
        if self.inside == "script" and data.strip():
            self.scripts.append(data)
            self.script[self.elements[-1][1].get("id")] = data
        elif self.inside != "style":
            self.words.append(data)

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

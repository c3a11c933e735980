"""Draw a timeline in at most 80 columns: one line for each span, with a bar."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from piecework_orchestrator.cli.output import View
from piecework_orchestrator.cli.table import Document, clean
from piecework_orchestrator.cli.views.jobs import event_facts_text
from piecework_orchestrator.reading.times import epoch, format_span

#: Columns of the whole line, and of its parts; the bar gets the rest.
WIDTH, NAME, TOOK, FACTS = 80, 14, 7, 24
#: The bar of each kind of span.
BARS = {"phase": "=", "claim": "#", "wait": ".", "stage": "-"}


def timeline_view(timeline: Document) -> View:
    """Return a view of a timeline; the terminal may be narrower than 80 columns."""

    def draw(console: Console) -> None:
        width = min(console.width, WIDTH)
        spans = timeline["spans"]
        if not spans:
            console.print("no chunk was claimed yet")
            return
        began = min(epoch(span["from"]) for span in spans)
        whole = max(max(epoch(span["to"]) for span in spans) - began, 1e-3)
        bar = max(8, width - NAME - TOOK - FACTS - 4)
        console.print(f"{spans[0]['from']}, {format_span(whole)} in all", style="dim")
        last = ""
        for span in spans:
            name = (
                "" if span["name"] == last and span["kind"] != "phase" else span["name"]
            )
            last = span["name"]
            line = " ".join(
                (
                    cut(name, NAME),
                    place_bar(span, began, whole, bar),
                    format_span(span["seconds"]).rjust(TOOK),
                    span_facts(span),
                )
            )
            console.print(Text(clean(cut(line, width).rstrip())))
        if timeline["chunks"] < timeline["claimed_chunks"]:
            some = f"the {timeline['chunks']} slowest of {timeline['claimed_chunks']}"
            console.print(f"chunks: {some} that were claimed", style="dim")
        for event in timeline["events"]:
            text = f"{event['at'][11:19]} {event['event']}: {event_facts_text(event)}"
            console.print(Text(clean(cut(text, width).rstrip())))

    return draw


def place_bar(span: Document, began: float, whole: float, width: int) -> str:
    """Return the bar of a span at its place on the time axis; at least one mark."""
    first = int((epoch(span["from"]) - began) / whole * (width - 1))
    last = int((epoch(span["to"]) - began) / whole * (width - 1))
    marks = BARS[span["kind"]] * (last - first + 1)
    return f"{' ' * first}{marks}".ljust(width)[:width]


def span_facts(span: Document) -> str:
    """Return what a span says beside its bar."""
    if span["kind"] == "wait":
        return f"wait: {span.get('reason', '')}"
    if span["kind"] == "claim":
        why = span.get("code") if span["end"] != "succeeded" else ""
        return f"{span.get('attempt', 0)}: {why or span['end']}"
    return str(span.get("worker", ""))


def cut(text: str, width: int) -> str:
    """Return a text of this width: padded, or cut with an ellipsis."""
    return text.ljust(width) if len(text) <= width else f"{text[: width - 1]}…"

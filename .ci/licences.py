"""Prints the licence files of the crates that a program is made of.

Reads what `cargo metadata` prints. Crates that only help to build or test are left out.
"""

import json
import sys
from pathlib import Path


def linked(graph, root):
    """The ids of the packages that are linked into the program."""
    nodes = {node["id"]: node for node in graph["nodes"]}
    seen, open_ = set(), [root]
    while open_:
        at = open_.pop()
        if at in seen:
            continue
        seen.add(at)
        for dependency in nodes[at]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                open_.append(dependency["pkg"])
    return seen - {root}


metadata = json.load(sys.stdin)
ids = linked(metadata["resolve"], metadata["resolve"]["root"])
packages = [package for package in metadata["packages"] if package["id"] in ids]
for package in sorted(packages, key=lambda package: package["name"]):
    print(f"{'=' * 80}\n{package['name']} {package['version']}: {package['license']}\n")
    folder = Path(package["manifest_path"]).parent
    names = ("license", "licence", "copying", "notice", "unlicense")
    files = [file for file in sorted(folder.iterdir()) if file.name.lower().startswith(names)]
    for file in files:
        if file.is_file():
            print(file.read_text(errors="replace").strip(), "\n")
    if not files:
        print("(the crate has no licence file; the licence above applies)\n")

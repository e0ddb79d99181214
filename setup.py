"""What pyproject.toml cannot say of a wheel: templates and static files go into the package."""

from pathlib import Path

from setuptools import find_packages, setup

FOLDERS = (Path("templates"), Path("static"))
INSIDE = {
    ".".join(("opsconsole", *place.parts)): str(place)
    for folder in FOLDERS
    for place in (folder, *folder.rglob("*"))
    if place.is_dir()
}

setup(
    packages=[*find_packages(include=["agents*", "opsconsole*"]), *INSIDE],
    package_dir=INSIDE,
    package_data={
        "": [
            *("*.txt", "*.md", "*.json", "*.jsonl", "*.sql", "*.toml"),
            *("prompts/*", "roles/*", "skeleton/*", "workflows/*"),
        ],
        **{name: ["*"] for name in INSIDE},
    },
)

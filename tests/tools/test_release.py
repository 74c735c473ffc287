"""What a release needs says the same thing everywhere."""

import re
import tarfile
import zipfile
from pathlib import Path

import jinja2
import pytest
import yaml
from tools.build_dist import check_source, check_tag, check_wheel
from tools.install_dist import lowest, needs
from tools.lint_release import SCHEMAS, check_schema, lint_dockerfile

import unbend

ROOT = Path(__file__).parents[2]
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))


def dependencies():
    block = PROJECT.split("\ndependencies = [")[1].split("\n]")[0]
    return dict(re.findall(r'"([\w-]+)>=([\d.]+)', block))


def test_the_version_is_written_once():
    assert 'dynamic = ["version"]' in PROJECT
    for name in ("pyproject.toml", "CITATION.cff", "conda.recipe/meta.yaml", "docs/conf.py"):
        assert unbend.__version__ not in (ROOT / name).read_text(encoding="utf-8"), name


def test_the_conda_recipe_needs_what_the_package_needs():
    recipe = (ROOT / "conda.recipe/meta.yaml").read_text(encoding="utf-8")
    block = recipe.split("  run:\n")[1].split("\n\n")[0]
    found = dict(re.findall(r"- ([\w-]+) >=([\d.]+)", block))
    assert found.pop("python") == re.search(r'requires-python = ">=(.*)"', PROJECT)[1]
    found["torch"] = found.pop("pytorch")
    assert found == dependencies()


def test_the_conda_recipe_renders_to_the_metadata_of_the_package():
    recipe = (ROOT / "conda.recipe/meta.yaml").read_text(encoding="utf-8")

    def load_file_regex(load_file, regex_pattern, from_recipe_dir):
        assert from_recipe_dir
        return re.search(regex_pattern, (ROOT / "conda.recipe" / load_file).read_text())

    text = jinja2.Template(recipe, undefined=jinja2.StrictUndefined).render(
        load_file_regex=load_file_regex, PYTHON="python"
    )
    tree = yaml.safe_load(text)
    assert tree["package"] == {"name": "unbend", "version": unbend.__version__}
    assert tree["build"]["entry_points"] == ["unbend = unbend.cli:main"]
    assert 'unbend = "unbend.cli:main"' in PROJECT
    assert tree["requirements"]["host"][2] == "hatchling >=1.26"
    assert 'requires = ["hatchling>=1.26"]' in PROJECT
    assert f'license = "{tree["about"]["license"]}"' in PROJECT
    assert (ROOT / tree["about"]["license_file"]).is_file()


def test_the_linters_find_nothing_here_and_something_elsewhere(tmp_path):
    assert lint_dockerfile(ROOT / "Dockerfile") == []
    (tmp_path / "Dockerfile").write_text("FROM python\n")
    assert "DL3006" in lint_dockerfile(tmp_path / "Dockerfile")[0]
    for schema, paths in SCHEMAS.items():
        assert check_schema(schema, paths) == []
    (tmp_path / "ci.yml").write_text("on: push\njobs:\n  a:\n    runs-onn: x\n")
    assert "runs-onn" in "".join(check_schema("github-workflows", [tmp_path / "ci.yml"]))


def test_the_workflow_calls_what_exists():
    steps = [step for job in WORKFLOW["jobs"].values() for step in job["steps"]]
    commands = " ".join(step.get("run", "") for step in steps)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"make (\w+)", commands):
        assert f"\n{target}:" in makefile
    for module in re.findall(r"-m tools\.(\w+)", commands):
        assert (ROOT / "tools" / f"{module}.py").is_file()
    for path in re.findall(r"tests/\w+", commands):
        assert (ROOT / path).is_dir()


def test_the_workflow_covers_the_supported_versions_and_publishes_only_tags():
    matrix = WORKFLOW["jobs"]["tests"]["strategy"]["matrix"]
    (main,) = (s["with"] for s in WORKFLOW["jobs"]["checks"]["steps"] if "with" in s)
    claimed = set(re.findall(r"Python :: (3\.\d+)", PROJECT))
    assert {*matrix["python"], main["python-version"]} == claimed
    release = WORKFLOW["jobs"]["release"]
    assert release["if"] == "startsWith(github.ref, 'refs/tags/v')"
    assert set(release["needs"]) == set(WORKFLOW["jobs"]) - {"release"}


def test_the_image_copies_what_exists_and_what_is_not_ignored():
    docker = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    copied = [w for line in re.findall(r"^COPY (.*)", docker, re.M) for w in line.split()[:-1]]
    ignore = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    for name in copied:
        assert (ROOT / name).exists()
        assert f"!{name}" in ignore


@pytest.fixture
def archives(tmp_path):
    """A wheel and a source distribution, each with a file too many and one too few."""
    wheel, source = tmp_path / "a-1-py3-none-any.whl", tmp_path / "a-1.tar.gz"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("unbend/here.py", "")
        archive.writestr("unbend/extra.py", "")
        needs = "Metadata-Version: 2.1\nName: a\nVersion: 1\nRequires-Dist: torch>=2.4\n"
        needs += "Requires-Dist: tomli>=2.0; python_version < '3.11'\n"
        needs += "Requires-Dist: onnx>=1.17; extra == 'onnx'\n"
        archive.writestr("a-1.dist-info/METADATA", needs)
    (tmp_path / "file").touch()
    with tarfile.open(source, "w:gz") as archive:
        for name in ("src/unbend/here.py", "docs/extra.md", "PKG-INFO"):
            archive.add(tmp_path / "file", f"a-1/{name}")
    return wheel, source


def test_what_is_missing_or_too_much_in_an_archive_is_named(archives):
    wheel, source = archives
    tracked = {"src/unbend/here.py", "src/unbend/lost.html", "README.md"}
    assert check_wheel(wheel, tracked) == [
        f"{wheel.name} lacks unbend/lost.html",
        f"{wheel.name} holds unbend/extra.py, which git does not track",
    ]
    assert check_source(source, tracked) == [
        f"{source.name} lacks src/unbend/lost.html",
        f"{source.name} holds docs/extra.md, which git does not track",
    ]


@pytest.mark.parametrize(
    ("reference", "problem"),
    [("refs/tags/v1", ""), ("refs/tags/v2", "v2"), ("refs/pull/7/merge", ""), (None, "")],
)
def test_a_tag_must_be_the_version(archives, reference, problem):
    said = check_tag(archives[0], {"GITHUB_REF": reference} if reference else {})
    assert len(said) == bool(problem)
    assert problem in "".join(said)


def test_the_lowest_versions_are_pinned_without_the_extras(archives):
    pins = [pin.replace(" ", "").replace('"', "'") for pin in lowest(archives[0], [])]
    assert pins == ["torch==2.4", "tomli==2.0;python_version<'3.11'"]
    assert lowest(archives[0], ["torch==2.13.0"]) == lowest(archives[0], [])[1:]


def test_requirements_are_followed_through_the_extras_that_were_asked_for():
    cuda = ["nvidia-cufft==12; extra == 'cufft'", 'nvidia_npp==13 ; extra == "npp"', "plain>=1"]
    ((name, extras),) = needs(["cuda-toolkit[cufft,cudart]==13.0; platform_system == 'Linux'"])
    assert (name, extras) == ("cuda-toolkit", {"cufft", "cudart"})
    assert [n for n, _ in needs(cuda, extras)] == ["nvidia-cufft", "plain"]
    assert [n for n, _ in needs(cuda)] == ["plain"]

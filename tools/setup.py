"""The set-up behind `make`: a virtual environment, the packages, the generated Prisma client, the web pages.

It runs on the machine's own Python before anything is installed, so it uses the standard library alone.
`build_backend.py` takes two of its steps, the client and the pages, for a package that is built without `make`.
Each step leaves the hash of what it was made from; a step whose hash is current is not done again.
"""

import fcntl
import hashlib
import os
import shlex
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
SYSTEM_CERTIFICATES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
PYTHON = VENV / "bin" / "python"
PACKAGES_MARK = VENV / "packages.sha256"
CLIENT_MARK = "schema.sha256"
GENERATED = ROOT / "generated"
SPLIT_CLIENT = Path(__file__).with_name("split_client.py")
# See atlas/db/generated_prisma.py.
SPARED_IMPORT = "from atlas.db.generated_prisma import prepare_import\n\nprepare_import()\n"
# Parts of the generated client are copied from the package prisma.
COPY_LICENSE = """
import shutil, sys
from importlib.metadata import files
[shutil.copy(file.locate(), sys.argv[1]) for file in files("prisma") if file.name == "LICENSE"]
"""
WEB = ROOT / "web"
DIST = WEB / "dist"
NODE_PACKAGES_MARK = "packages.sha256"
# Stands in that mark after the hash, where the linters were installed too.
LINTERS = " with linters"
PAGES_MARK = "sources.sha256"
# What the pages are built from, beside what is in these folders.
PAGE_SOURCES = ("index.html", "vite.config.ts", "package-lock.json")
PAGE_FOLDERS = ("src", "public")
# How long a step is silent.
PROGRESS_SECONDS = 5.0
# What Vite takes; Prisma would take 16.13.
OLDEST_NODE = (20, 19)
TYPES = ROOT / ".types"
FLOORS = ("api", "audit", "cli", "engine", "integrations", "scheduler", "testing", "workers")


def main() -> int:
    """Do the steps that are not done yet. Two set-ups at the same time run one after the other."""
    try:
        with (ROOT / "pyproject.toml").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            do_steps(for_running="--run" in sys.argv, for_linting="--lint" in sys.argv)
    except OSError as error:
        return _fail(f"the set-up cannot use {error.filename or ROOT}: {error.strerror}. Make the folder writable.")
    except subprocess.CalledProcessError as error:
        return _fail(f"`{' '.join(map(str, error.cmd))}` failed. Its output is above; run `make setup` again.")
    return 0


def do_steps(*, for_running: bool, for_linting: bool) -> None:
    """The steps in their order. The first time, the pages are made while pip installs, if the machine has Node.js."""
    ensure_venv()
    with ThreadPoolExecutor(max_workers=1) as beside:
        is_first = not PACKAGES_MARK.exists()
        pages = beside.submit(make_pages, for_linting=for_linting) if is_first and has_node() else None
        ensure_packages(for_running=for_running)
        ensure_client()
        ensure_type_links()
        if not for_running:
            ensure_fault_command()
    if pages is not None:
        pages.result()
    else:
        make_pages(for_linting=for_linting)


def make_pages(*, for_linting: bool) -> None:
    """The web pages, and before them the packages of npm."""
    ensure_node_packages(for_linting=for_linting)
    ensure_pages()


def ensure_venv() -> None:
    """A virtual environment in `.venv`. One that is incomplete, or was moved here, is made again."""
    pip = VENV / "bin" / "pip"
    if pip.exists() and PYTHON.exists() and str(VENV) in pip.read_text(errors="replace"):
        return
    run_step("making .venv", [sys.executable, "-m", "venv", "--clear", str(VENV)])


def ensure_packages(*, for_running: bool = False) -> None:
    """Atlas in editable mode with its dependencies, and a Node.js from PyPI if the machine has none.

    The tools of its developers are left out `for_running`, unless they are there already.
    """
    always = ["all", "generate"] if has_node() else ["all", "generate", "node"]
    digest = _packages_hash(["dev", *always])
    enough = {digest, _packages_hash(always)} if for_running else {digest}
    if _read(PACKAGES_MARK) in enough:
        return
    extras = always if for_running else ["dev", *always]
    # Only a folder that exists is mapped to its import name.
    GENERATED.mkdir(exist_ok=True)
    package = f"{ROOT}[{','.join(extras)}]"
    run_step("installing packages", [PYTHON, "-m", "pip", "install", "--progress-bar=off", "--editable", package])
    PACKAGES_MARK.write_text(_packages_hash(extras), encoding="utf-8")


def _packages_hash(extras: list[str]) -> str:
    made_from = b"".join((ROOT / name).read_bytes() for name in ("pyproject.toml", "setup.py"))
    return _sha256(made_from + ",".join(extras).encode())


def ensure_client(python: str | Path | None = None) -> None:
    """The Prisma client of the current `schema.prisma`, in `generated/`. `python`, or that of `.venv`, has Prisma."""
    if not client_is_current(GENERATED):
        _generate(python or PYTHON)


def ensure_node_packages(*, for_linting: bool = False) -> None:
    """The packages of npm in `web/node_modules`, exactly as the lock file says: what the pages are built with.

    The linters and tests of the pages are left out unless they are requested, or installed already.
    """
    mark = WEB / "node_modules" / NODE_PACKAGES_MARK
    with_linters = for_linting or (_read(mark) or "").endswith(LINTERS)
    locked = _sha256(b"".join((WEB / name).read_bytes() for name in ("package.json", "package-lock.json", ".npmrc")))
    packages = locked + LINTERS if with_linters else locked
    if _read(mark) == packages:
        return
    doing = "installing the packages of the web pages" + (" and their linters" if with_linters else "")
    npm = ["npm", "ci", "--loglevel=http", *([] if with_linters else ["--omit=dev"])]
    run_step(doing, npm, cwd=WEB, env=_node_environment())
    mark.write_text(packages, encoding="utf-8")


def ensure_pages() -> None:
    """The web pages in `web/dist`, built from the current sources. A build that fails leaves no mark."""
    if not pages_are_current():
        run_step("building the web pages", ["npm", "run", "--silent", "build"], cwd=WEB, env=_node_environment())
        (DIST / PAGES_MARK).write_text(_pages_hash(), encoding="utf-8")


def pages_are_current() -> bool:
    """True if `web/dist` was built from the current sources."""
    return _read(DIST / PAGES_MARK) == _pages_hash()


def _pages_hash() -> str:
    inner = (path for folder in PAGE_FOLDERS for path in (WEB / folder).rglob("*") if path.is_file())
    # Types that are generated, and tests, are not in the pages.
    sources = [path for path in inner if not path.name.endswith((".d.ts", ".test.ts"))]
    hashes = hashlib.sha256()
    for path in sorted([*sources, *(WEB / name for name in PAGE_SOURCES)]):
        hashes.update(f"{path.relative_to(WEB)} {_sha256(path.read_bytes())}\n".encode())
    return hashes.hexdigest()


def ensure_type_links() -> None:
    """Links under the import names, for type checkers and editors: they do not follow the map of `setup.py`."""
    links = {path.name: path for path in (ROOT / "atlas").iterdir() if path.suffix in ("", ".py", ".typed")}
    links |= {floor: ROOT / floor for floor in FLOORS} | {"generated": GENERATED}
    _link_all(TYPES / "atlas", links)
    _link_all(TYPES, {"bench": ROOT / "bench", "tools": ROOT / "tools"})


def _link_all(folder: Path, links: dict[str, Path]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for link in folder.iterdir():
        if link.is_symlink() and links.get(link.name) != link.readlink():
            link.unlink()
    for name, target in links.items():
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(target)


def ensure_fault_command() -> None:
    """`.venv/bin/atlas-faults`, from any folder. The fault suite is part of the source tree, and of no package."""
    script = PYTHON.with_name("atlas-faults")
    text = f"#!/bin/sh\nPYTHONPATH={shlex.quote(str(ROOT))} exec {shlex.quote(str(PYTHON))} -P -m tests.faults"
    if _read(script) != f'{text} "$@"':
        script.write_text(f'{text} "$@"\n', encoding="utf-8")
        script.chmod(0o755)


def client_is_current(package: Path) -> bool:
    """True if the client generated into `package` is that of the current `schema.prisma`, split as it is today."""
    return (package / "client.py").exists() and _read(package / CLIENT_MARK) == _expected_client()


def _generate(python: str | Path) -> None:
    shutil.rmtree(GENERATED, ignore_errors=True)
    environment = {**_node_environment(), "npm_config_loglevel": "http"}
    schema = str(ROOT / "schema.prisma")
    run_step("generating the Prisma client", [python, "-m", "prisma", "generate", "--schema", schema], env=environment)
    face = GENERATED / "__init__.py"
    face.write_text(SPARED_IMPORT + face.read_text(encoding="utf-8"))
    run_step("splitting the Prisma client", [python, str(SPLIT_CLIENT), str(GENERATED)])
    run_step("copying Prisma's license", [python, "-c", COPY_LICENSE, str(GENERATED)])
    # Compiled now: where no program may write bytecode, every one would compile it again, for 0.6 s of CPU.
    run_step("compiling the Prisma client", [python, "-m", "compileall", "-q", str(GENERATED)])
    (GENERATED / CLIENT_MARK).write_text(_expected_client(), encoding="utf-8")


def run_step(doing: str, argv: Sequence[str | Path], **options: Any) -> None:
    """Run a command and say every few seconds how far it is. The output of one that fails is printed."""
    _say(doing)
    began, lines = time.monotonic(), list[str]()
    command = [str(word) for word in argv]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", **options
    ) as process:
        reader = Thread(target=_keep_lines, args=(process.stdout, lines), daemon=True)
        reader.start()
        while _goes_on(process):
            latest = f": {lines[-1].strip()[:100]}" if lines else ""
            _say(f"{doing}, {time.monotonic() - began:.0f} s so far{latest}")
        reader.join()
    if process.returncode != 0:
        sys.stderr.writelines(lines)
        raise subprocess.CalledProcessError(process.returncode, command)


def _keep_lines(output: Iterable[str], lines: list[str]) -> None:
    for line in output:
        if line.strip():
            lines.append(line)


def _goes_on(process: "subprocess.Popen[str]") -> bool:
    """Wait for the end of a command. True if it still runs after some seconds."""
    try:
        process.wait(PROGRESS_SECONDS)
    except subprocess.TimeoutExpired:
        return True
    return False


def has_node() -> bool:
    """Whether the machine has a Node.js that is new enough."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        return False
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    numbers = [int(part) for part in version.strip().lstrip("v").split(".")[:2] if part.isdigit()]
    return tuple(numbers) >= OLDEST_NODE


def _expected_client() -> str:
    return _sha256((ROOT / "schema.prisma").read_bytes() + SPLIT_CLIENT.read_bytes())


def _node_environment() -> dict[str, str]:
    cache = VENV if VENV.exists() else ROOT / "build"
    return {
        **_trusted_certificates(),
        **os.environ,
        "PATH": f"{VENV / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        # Atlas never runs the engines of Prisma. If a file of that name exists, Prisma does not fetch them.
        "PRISMA_QUERY_ENGINE_BINARY": os.devnull,
        "PRISMA_SCHEMA_ENGINE_BINARY": os.devnull,
        "npm_config_ignore_scripts": "true",
        "CHECKPOINT_DISABLE": "1",
        # Everything that is fetched stays in the checkout.
        "PRISMA_BINARY_CACHE_DIR": str(cache / "prisma-cli"),
        "npm_config_cache": str(cache / "npm-cache"),
    }


def _trusted_certificates() -> dict[str, str]:
    """The machine's certificates for Node.js, which otherwise only trusts its own; a proxy may need them."""
    paths = ssl.get_default_verify_paths()
    for path in (os.environ.get("SSL_CERT_FILE"), paths.cafile, *SYSTEM_CERTIFICATES):
        if path and Path(path).is_file():
            return {"NODE_EXTRA_CA_CERTS": path}
    return {}


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _read(mark: Path) -> str | None:
    return mark.read_text(encoding="utf-8").strip() if mark.exists() else None


def _say(message: str) -> None:
    sys.stderr.write(f"setup: {message}\n")


def _fail(message: str) -> int:
    sys.stderr.write(f"error: {message}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())

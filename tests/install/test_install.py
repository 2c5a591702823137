"""What is installed is what is in the repository, and works away from it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = sorted(path.name for path in (ROOT / "bin").iterdir())


@pytest.mark.parametrize("name", COMMANDS)
def test_an_installed_command_differs_from_its_source_in_the_first_line_alone(name: str) -> None:
    installed = Path(sys.executable).with_name(name).read_text().splitlines()
    source = (ROOT / "bin" / name).read_text().splitlines()
    assert installed[1:] == source[1:], "run `make setup`: the installed command is an old one"
    assert "python" in installed[0]


@pytest.mark.parametrize("name", COMMANDS)
def test_an_entry_point_is_a_manual_with_at_most_20_lines_below_it(name: str) -> None:
    code = (ROOT / "bin" / name).read_text().split('"""')[2].strip().splitlines()
    assert len(code) <= 20


@pytest.mark.parametrize("name", COMMANDS)
def test_help_needs_nothing_but_the_runner(name: str) -> None:
    code = (
        "import runpy, sys\n"
        f"sys.argv = [{name!r}, '--help']\n"
        "import os\n"
        "end = os._exit\n"
        "def leave(status):\n"
        "    heavy = {'docopt', 'jsonschema', 'jsonschema_rs', 'sh', 'yaml', 'filelock',\n"
        "             'tabulate', 'asyncio', 'http.server', 'subprocess', 'waybill.packet'}\n"
        "    sys.stderr.write(','.join(sorted(heavy & set(sys.modules))))\n"
        "    sys.stderr.flush()\n"
        "    end(status)\n"
        "os._exit = leave\n"
        f"runpy.run_path({str(ROOT / 'bin' / name)!r}, run_name='__main__')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.startswith(f"{name} - ")
    assert done.stderr == ""


def test_the_wheel_rehearses_from_an_empty_environment(tmp_path: Path) -> None:
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GIT_", "PYTHON", "OPENAI_"))
    }
    env |= {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    wheels = tmp_path / "wheels"
    subprocess.run(
        [*pip, "wheel", "--no-deps", "-w", str(wheels), str(ROOT)],
        check=True, capture_output=True, cwd=tmp_path,
    )  # fmt: skip
    [wheel] = wheels.iterdir()
    place = tmp_path / "venv"
    venv.create(place, with_pip=True)
    python = place / "bin" / "python"
    constraints = str(ROOT / "constraints.txt")
    subprocess.run(
        [str(python), "-m", "pip", "-q", "install", "-c", constraints, str(wheel)],
        check=True, capture_output=True, cwd=tmp_path,
    )  # fmt: skip
    project = tmp_path / "project"
    project.mkdir()
    (project / "check").write_text("#!/bin/sh\ntest -f made\n")
    (project / "check").chmod(0o755)
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"exec": "touch made"}, {"say": "made it"}]))
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    for words in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-qm", "base"]):
        subprocess.run(["git", *words], cwd=project, check=True, env=env)
    env["PATH"] = f"{place / 'bin'}:{env['PATH']}"
    chain = (
        f"packet-make --objective 'make it' --require ./check | dispatch --rehearse {script}"
        " | receipt-check --allow rehearsal"
    )
    done = subprocess.run(
        ["bash", "-c", chain], cwd=project, env=env, capture_output=True, text=True
    )
    judgement = json.loads(done.stdout)
    assert [row["rule"] for row in judgement["reasons"]] == ["verdict"], done.stderr
    where = subprocess.run(
        [str(python), "-c", "import waybill.base.schema as s; print(s.FOLDER)"],
        capture_output=True, text=True, cwd=tmp_path, env=env,
    )  # fmt: skip
    assert where.stdout.startswith(str(place))

"""Every option that writes a file respects what is at its path and leaves nothing behind."""

import array
import fcntl
import io
import os
import signal
import stat
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from tests.commands import Run
from tests.faults import commands
from transduce.cli.main import app
from transduce.errors import OutputError, StorageError
from transduce.model_folder import ModelFolder, save_model
from transduce.outputs import open_output, open_text_output, write_output

SOURCE, TARGET = b"I love you\n", b"Ti amo\n"
# Each option that writes a file, with a quick command that does; $NAME stands for a file below.
WRITERS: dict[str, str] = {
    "translate --report": "translate -m $M --beam 1",
    "translate --alignments": "translate -m $M --beam 1",
    "score --alignments": "score -m $M --source $A --target $B",
    "compare --html": "compare --reference $B --system $A --system $B",
    "doctor --html": "doctor --source $A --target $B",
    "inspect --html": "inspect hello -m $M --beam 1 --with-model",
    "inspect --svg": "inspect hello -m $M --beam 1 --view tokens",
    "claims --html": "claims causal_mask -m $M",
}
FOLDER_WRITERS = {"doctor --write", "demo --keep"}
is_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make device nodes")


@pytest.fixture
def arguments(tmp_path: Path, untrained_folder: ModelFolder) -> dict[str, list[str]]:
    """The commands of WRITERS, up to their option."""
    (tmp_path / "in").mkdir()
    files = {"$A": tmp_path / "in" / "a.en", "$B": tmp_path / "in" / "b.it", "$M": tmp_path / "m"}
    files["$A"].write_bytes(SOURCE)
    files["$B"].write_bytes(TARGET)
    save_model(files["$M"], untrained_folder)
    return {
        name: [str(files.get(word, word)) for word in command.split()] + [name.split()[1]]
        for name, command in WRITERS.items()
    }


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """An empty folder for the output."""
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def make_device(path: Path, minor: int) -> Path:
    """Make a private node of one of the memory devices: 3 is null, 7 is full."""
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, minor))
    return path


def test_every_option_that_writes_is_tested_here() -> None:
    found = set()
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]  # a group
        for option in command.params:
            is_output = (getattr(option, "help", None) or "").startswith(("Write", "Keep"))
            if is_output and option.metavar in ("FILE", "DIR"):
                found.add(f"{name} {option.opts[0]}")
    assert found == {*WRITERS, *FOLDER_WRITERS}


@pytest.mark.parametrize("name", WRITERS)
def test_a_link_is_followed_the_mode_is_kept_and_files_beside_it_are_left_alone(
    transduce: Run, arguments: dict[str, list[str]], out: Path, name: str
) -> None:
    target, link, mine = out / "target", out / "a", out / "a.partial"
    target.write_text("before")
    target.chmod(0o640)
    link.symlink_to("target")
    for path in (mine, out / "target.partial"):
        path.write_text("mine")
    with target.open() as reader:
        code, _, err = transduce(*arguments[name], link, stdin=SOURCE)
        assert code == 0, err
        assert reader.read() == "before"  # replaced by renaming, not written in place
    assert link.readlink() == Path("target")
    assert target.stat().st_size > 0
    assert target.read_text() != "before"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert mine.read_text() == (out / "target.partial").read_text() == "mine"
    assert len(list(out.iterdir())) == 4


@pytest.mark.parametrize("name", WRITERS)
def test_an_impossible_path_is_refused_before_any_work(
    transduce: Run, arguments: dict[str, list[str]], out: Path, name: str
) -> None:
    (out / "file").write_text("x")
    (out / "loop").symlink_to("loop")
    (out / "lost").symlink_to("gone/x")
    for path, message in (
        (out / "gone" / "x", f"cannot create {out / 'gone' / 'x'}: no folder {out / 'gone'}"),
        (out / "lost", f"cannot create {out / 'lost'}: no folder {out / 'gone'}"),
        (out / "file" / "x", f"cannot create {out / 'file' / 'x'}: Not a directory"),
        (out / "loop", f"cannot create {out / 'loop'}: Too many levels of symbolic links"),
        (out / ("x" * 300), ": File name too long"),
        (out, f"{out} is a folder; expected the name of a file to write"),
    ):
        code, shown, err = transduce(*arguments[name], path, stdin=SOURCE)
        assert (code, shown) == (73, ""), err
        assert message in err
        assert err.count("\n") == 1


@is_root
@pytest.mark.parametrize("name", ["translate --report", "doctor --html"])
def test_a_device_is_written_to_and_stays_a_device(
    transduce: Run, arguments: dict[str, list[str]], out: Path, name: str
) -> None:
    null, full = make_device(out / "null", 3), make_device(out / "full", 7)
    code, _, err = transduce(*arguments[name], null, stdin=SOURCE)
    assert code == 0, err
    code, _, err = transduce(*arguments[name], full, stdin=SOURCE)
    assert code == 74, err
    assert err.endswith(f"transduce: error: cannot write {full}: No space left on device\n")
    assert stat.S_ISCHR(null.stat().st_mode)
    assert stat.S_ISCHR(full.stat().st_mode)
    assert {path.name for path in out.iterdir()} == {"null", "full"}


def read_pipe(path: Path, received: list[bytes]) -> threading.Thread:
    """Start to read a pipe to its end."""
    os.mkfifo(path)
    thread = threading.Thread(target=lambda: received.append(path.read_bytes()), daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("name", ["translate --report", "doctor --html"])
def test_a_pipe_is_written_to_and_stays_a_pipe(
    transduce: Run, arguments: dict[str, list[str]], out: Path, name: str
) -> None:
    received: list[bytes] = []
    thread = read_pipe(out / "pipe", received)
    code, _, err = transduce(*arguments[name], out / "pipe", stdin=SOURCE)
    assert code == 0, err
    thread.join(timeout=30)
    assert len(received[0]) > 10
    assert (out / "pipe").is_fifo()
    assert len(list(out.iterdir())) == 1


def test_dev_stdout_is_the_stream_whether_it_is_a_pipe_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(SOURCE)
    (tmp_path / "b").write_bytes(TARGET)
    script = (
        "$T doctor --source $1/a --target $1/b --html /dev/stdout --json | tail -c 200 && "
        "echo first > $1/out && $T doctor --source $1/a --target $1/b --html /dev/stdout >> $1/out"
    )
    ended = commands.run_in_shell(script, tmp_path)
    assert ended.code == 0, ended.err
    assert ended.out.rstrip().endswith("}")  # what is printed later follows the page
    written = (tmp_path / "out").read_text()
    assert written.startswith("first\n<!doctype html>")
    assert "</html>" in written
    assert not written.rstrip().endswith("</html>")


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)],
)
def test_a_signal_leaves_the_old_file_and_nothing_beside_it(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    report = tmp_path / "report.jsonl"
    report.write_text("before")
    command = [sys.executable, "-m", "transduce", "translate", "--engine", "torch"]
    process = subprocess.Popen(
        [*command, "--report", str(report)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write(SOURCE)
    process.stdin.flush()
    assert process.stderr.readline().startswith(b"transduce: note: engine: torch")
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode == code
    assert report.read_text() == "before"
    assert list(tmp_path.iterdir()) == [report]


# The command, which waits where the new file is complete but still has its temporary name.
WAITS_BEFORE_RENAMING = """
import os, sys, time
from transduce.cli.main import main
os.fsync = lambda handle: [os.write(2, b"written\\n"), time.sleep(60)]
sys.argv = ["transduce", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("name", ["compare --html", "doctor --html"])
def test_a_signal_before_the_new_file_is_renamed_removes_it(
    arguments: dict[str, list[str]], out: Path, name: str, number: signal.Signals, code: int
) -> None:
    (out / "page.html").write_text("before")
    command = [sys.executable, "-c", WAITS_BEFORE_RENAMING, *arguments[name]]
    process = subprocess.Popen(
        [*command, str(out / "page.html")], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    assert b"written\n" in iter(process.stderr.readline, b"")
    assert len(list(out.iterdir())) == 2
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    message = {130: b"interrupted", 143: b"terminated"}[code]
    assert (process.returncode, err) == (code, b"transduce: error: " + message + b"\n")
    assert [path.name for path in out.iterdir()] == ["page.html"]
    assert (out / "page.html").read_text() == "before"


def unread(pipe: int) -> int:
    """Return how many bytes wait in a pipe."""
    count = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


@pytest.mark.skipif(not hasattr(fcntl, "F_SETPIPE_SZ"), reason="pipes have a fixed size here")
def test_a_signal_ends_a_command_whose_output_nobody_reads() -> None:
    read, write = os.pipe()
    size = fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    process = subprocess.Popen(
        [sys.executable, "-m", "transduce", "translate", "--json", "--engine", "torch"],
        stdin=subprocess.PIPE,
        stdout=write,
        stderr=subprocess.PIPE,
    )
    os.close(write)
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write(SOURCE * 20)  # the output is more than the pipe holds
    process.stdin.close()
    deadline = time.monotonic() + 60
    while unread(read) < size // 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=30) == 143
    os.close(read)
    assert err.endswith(b"transduce: error: terminated\n")


@pytest.mark.parametrize("name", [name for name in WRITERS if "$M" in WRITERS[name]])
def test_a_file_of_the_model_is_never_the_output(
    transduce: Run, arguments: dict[str, list[str]], tmp_path: Path, name: str
) -> None:
    (tmp_path / "link").symlink_to("m/config.json")
    before = {path: path.read_bytes() for path in (tmp_path / "m").iterdir()}
    for path in (tmp_path / "m" / "model.safetensors", tmp_path / "link"):
        code, _, err = transduce(*arguments[name], path, stdin=SOURCE)
        assert code == 2, err
        assert f"{path} is both read and written; name another output file" in err
    assert {path: path.read_bytes() for path in (tmp_path / "m").iterdir()} == before


def test_what_is_written_is_never_read_again(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(SOURCE * 200)
    for script, message in (
        ("cat $1/text | $T translate --report /dev/stdin", "/dev/stdin is both read and written"),
        ("$T translate < $1/text >> $1/text", "standard input is also the standard output; write"),
        ("$T translate < $1/text 1<> $1/text", "standard input is also the standard output; write"),
    ):
        ended = commands.run_in_shell(script, tmp_path)
        assert ended.failed_with(2, message)
    assert (tmp_path / "text").read_bytes() == SOURCE * 200


def test_a_folder_that_is_no_model_is_not_searched_for_files(
    transduce: Run, arguments: dict[str, list[str]], out: Path
) -> None:
    text, page = arguments["compare --html"][2], out / "deep" / "page.html"
    page.parent.mkdir()
    page.write_text("before")
    systems = ("--system", f"a={out}", "--system", f"b={text}", "--source", text)
    code, _, err = transduce("compare", "--reference", text, *systems, "--html", page)
    assert (code, f"{out} is not a model folder" in err) == (78, True), err


def test_an_input_of_doctor_is_never_its_output(transduce: Run, tmp_path: Path) -> None:
    for name, content in (("a.en", SOURCE), ("b.it", TARGET)):
        (tmp_path / name).write_bytes(content)
    inputs = ["--source", tmp_path / "a.*", "--target", tmp_path / "b.it"]
    code, _, err = transduce("doctor", *inputs, "--html", tmp_path / "a.en")
    assert code == 2
    assert "a.en is both read and written; name another output file" in err
    assert (tmp_path / "a.en").read_bytes() == SOURCE


@pytest.fixture
def umask() -> Iterator[int]:
    before = os.umask(0o027)
    yield 0o027
    os.umask(before)


def test_a_new_file_gets_the_mode_of_the_umask(out: Path, umask: int) -> None:
    write_output(out / "a", b"x")
    assert stat.S_IMODE((out / "a").stat().st_mode) == 0o666 & ~umask


def test_an_error_in_the_body_leaves_the_old_file_and_nothing_beside_it(out: Path) -> None:
    (out / "a").write_text("before")

    def fail(raised: type[BaseException]) -> None:
        with open_text_output(out / "a") as file:
            file.write("half")
            raise raised

    for raised in (KeyboardInterrupt, ValueError):
        with pytest.raises(raised):
            fail(raised)
    assert (out / "a").read_text() == "before"
    assert [path.name for path in out.iterdir()] == ["a"]


@pytest.mark.parametrize("failing", ["fsync", "rename"])
def test_a_failure_at_the_end_leaves_the_old_file_and_nothing_beside_it(
    out: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    (out / "a").write_text("before")
    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(StorageError, match=r"cannot write .*a: No space left on device"):
        write_output(out / "a", b"new")
    assert (out / "a").read_text() == "before"
    assert [path.name for path in out.iterdir()] == ["a"]


def test_content_is_on_disk_before_it_gets_its_name_and_the_name_is_flushed_too(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[str, int]] = []
    fsync, rename = os.fsync, os.rename

    def record_fsync(handle: int) -> None:
        fsync(handle)
        found = os.fstat(handle)
        made.append(("folder", 0) if stat.S_ISDIR(found.st_mode) else ("file", found.st_size))

    def record_rename(source: Path, target: Path) -> None:
        rename(source, target)
        made.append(("rename", 0))

    monkeypatch.setattr(os, "fsync", record_fsync)
    monkeypatch.setattr(os, "rename", record_rename)
    write_output(out / "a", b"12345")
    assert made == [("file", 5), ("rename", 0), ("folder", 0)]


def test_a_file_that_may_not_be_written_is_not_replaced(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (out / "a").write_text("before")
    for refused in (out / "a", out):

        def access(path: Path, mode: int, refused: Path = refused) -> bool:
            return path != refused

        monkeypatch.setattr(os, "access", access)
        with pytest.raises(OutputError, match=r"cannot create .*a: Permission denied"):
            write_output(out / "a", b"new")
    assert (out / "a").read_text() == "before"


def test_a_socket_is_refused(out: Path) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as server:
        os.chdir(out)  # the path of a socket is short
        server.bind("s")
        with pytest.raises(OutputError, match="is a socket; expected the name of a file to write"):
            write_output(out / "s", b"x")


def test_a_file_without_a_name_is_written_through_its_descriptor(out: Path) -> None:
    with (out / "a").open("w+b") as file:
        (out / "a").unlink()
        write_output(Path(f"/proc/self/fd/{file.fileno()}"), b"new")
        assert file.read() == b"new"
    assert list(out.iterdir()) == []


def test_bytes_are_written_as_they_are(out: Path) -> None:
    content = bytes(range(256)) * 1000
    with open_output(out / "a") as file:
        assert isinstance(file, io.BufferedWriter)
        for start in range(0, len(content), 997):
            file.write(content[start : start + 997])
    assert (out / "a").read_bytes() == content

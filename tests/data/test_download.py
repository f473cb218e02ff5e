"""Downloads from a loopback server: slow, interrupted, wrong, missing; archives that try to leave their folder."""

import hashlib
import io
import json
import os
import random
import socket
import subprocess
import sys
import tarfile
import threading
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from variations.data import transfer
from variations.data.archives import extract
from variations.data.download import Patience, fetch, origin
from variations.system.errors import UserError

BODY = bytes(range(256)) * 1200  # 307,200 bytes
SHA256 = "a7d8881521cbb1e4a5ca960198c7907b45625b39d3a7a86368fc8b4ecad01014"
QUICK = Patience(timeout=0.4, retries=2, backoff=0.01, offline_retries=1)


def get(site: Any, path: Path, name: str = "/file.bin", **options: Any) -> Path:
    return fetch(site.url + name, path, progress=False, **{"patience": QUICK, **options})


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock"))


def test_file_arrives_whole_with_a_record_of_its_origin(site: Any, tmp_path: Path) -> None:
    site.files["/file.bin"] = BODY
    path = get(site, tmp_path / "new" / "file.bin", sha256=SHA256, size=307_200)
    assert path.read_bytes() == BODY
    assert leftovers(path.parent) == ["file.bin", "file.bin.json"]
    assert origin(path) == {
        "url": site.url + "/file.bin",
        "sha256": SHA256,
        "size": 307_200,
        "checked": "published sha256",
    }


def test_second_call_asks_the_server_nothing(site: Any, tmp_path: Path) -> None:
    site.files["/file.bin"] = BODY
    for _ in range(2):
        get(site, tmp_path / "file.bin", sha256=SHA256)
    assert site.log == [("/file.bin", None)]


@pytest.mark.slow
def test_stalled_connection_is_dropped_and_resumed(site: Any, tmp_path: Path) -> None:
    site.files["/file.bin"], site.stall_at = BODY, [200_000]
    assert get(site, tmp_path / "file.bin", sha256=SHA256).read_bytes() == BODY
    ranges = [asked for _, asked in site.log]
    assert ranges[0] is None
    assert ranges[1] == "bytes=196608-"  # three blocks of 64 KiB had arrived


@pytest.mark.slow
def test_server_that_never_answers_is_named(site: Any, tmp_path: Path) -> None:
    site.files["/file.bin"], site.delay = BODY, 2.0
    with pytest.raises(UserError, match=r"Cannot download http://127.*/file\.bin: no answer within 0\.2 s"):
        get(site, tmp_path / "file.bin", patience=Patience(timeout=0.2, retries=1, backoff=0.01))


def test_broken_connection_is_resumed_where_it_broke(site: Any, tmp_path: Path) -> None:
    site.files["/file.bin"], site.break_at = BODY, [100_000, 100_000]
    assert get(site, tmp_path / "file.bin", sha256=SHA256).read_bytes() == BODY
    assert [asked for _, asked in site.log] == [None, "bytes=100000-", "bytes=200000-"]


def test_next_call_continues_what_an_earlier_one_left(site: Any, tmp_path: Path) -> None:
    site.files["/file.bin"], site.break_at = BODY, [200_000, 0, 0, 0, 0]
    with pytest.raises(UserError, match=r"the connection was lost.*data received so far is kept"):
        get(site, tmp_path / "file.bin")
    assert leftovers(tmp_path) == ["file.bin.part", "file.bin.part.json"]
    site.break_at, site.log = [], []
    assert get(site, tmp_path / "file.bin", sha256=SHA256).read_bytes() == BODY
    assert site.log == [("/file.bin", "bytes=200000-")]


def test_a_process_killed_before_its_last_act_leaves_nothing(
    site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.files["/file.bin"] = BODY

    class Killed(BaseException):
        pass

    def killed(path: Path) -> None:
        raise Killed

    with pytest.raises(Killed), monkeypatch.context() as patch:
        patch.setattr("variations.data.download.discard", killed)
        get(site, tmp_path / "file.bin")
    assert leftovers(tmp_path) == ["file.bin", "file.bin.part.json"]
    (tmp_path / ".file.bin.json.123-abcd.tmp").touch()  # as if killed slightly later, while writing
    get(site, tmp_path / "file.bin")
    assert leftovers(tmp_path) == ["file.bin", "file.bin.json"]
    assert len(site.log) == 1


def test_changed_file_is_not_glued_to_the_old_half(site: Any, tmp_path: Path) -> None:
    site.files["/file.bin"], site.break_at = BODY, [200_000, 0, 0, 0, 0]
    with pytest.raises(UserError):
        get(site, tmp_path / "file.bin")
    changed = bytes(reversed(BODY))
    site.break_at, site.files["/file.bin"] = [], changed
    assert get(site, tmp_path / "file.bin").read_bytes() == changed


def test_changed_file_without_validator_is_caught_by_its_checksum_and_read_anew(site: Any, tmp_path: Path) -> None:
    site.files["/file.bin"], site.break_at, site.validator = bytes(reversed(BODY)), [200_000, 0, 0, 0, 0], False
    with pytest.raises(UserError):
        get(site, tmp_path / "file.bin", sha256=SHA256)
    site.break_at, site.files["/file.bin"] = [], BODY
    assert get(site, tmp_path / "file.bin", sha256=SHA256).read_bytes() == BODY


def test_server_without_ranges_sends_all_again(site: Any, tmp_path: Path) -> None:
    site.files["/file.bin"], site.break_at, site.ranges = BODY, [100_000], False
    assert get(site, tmp_path / "file.bin", sha256=SHA256).read_bytes() == BODY


def test_busy_server_is_asked_again(site: Any, tmp_path: Path) -> None:
    site.files["/file.bin"], site.statuses = BODY, [503, 500]
    assert get(site, tmp_path / "file.bin", sha256=SHA256).read_bytes() == BODY
    assert len(site.log) == 3


def test_archive_labelled_as_encoded_is_stored_as_it_is(site: Any, tmp_path: Path) -> None:
    site.files["/file.bin"], site.headers = BODY, {"Content-Encoding": "x-gzip"}
    assert get(site, tmp_path / "file.bin", sha256=SHA256).read_bytes() == BODY


def test_wrong_checksum_removes_the_file_and_shows_both(site: Any, tmp_path: Path) -> None:
    site.files["/file.bin"] = b"something else"
    with pytest.raises(UserError) as caught:
        get(site, tmp_path / "file.bin", sha256=SHA256)
    received = hashlib.sha256(b"something else").hexdigest()
    assert f"expected sha256 {SHA256}, received {received}" in str(caught.value)
    assert leftovers(tmp_path) == []


def test_wrong_md5_is_refused(site: Any, tmp_path: Path) -> None:
    site.files["/file.bin"] = b"something else"
    message = "expected md5 a8cd784e006feb32ac6f3d9ec7eb389a, received 6c7ba9c5a141421e1c03cb9807c97c74"
    with pytest.raises(UserError, match=message):
        get(site, tmp_path / "file.bin", md5="a8cd784e006feb32ac6f3d9ec7eb389a")


def test_wrong_size_is_refused_before_the_download(site: Any, tmp_path: Path) -> None:
    site.files["/file.bin"] = BODY
    with pytest.raises(UserError, match=r"expected 5 bytes, the server offers 307,200"):
        get(site, tmp_path / "file.bin", size=5)
    assert leftovers(tmp_path) == []


def test_without_checksum_the_first_download_is_trusted_and_a_change_refused(site: Any, tmp_path: Path) -> None:
    site.files["/file.bin"] = BODY
    path = get(site, tmp_path / "file.bin")
    assert origin(path)["checked"] == "first use"
    assert origin(path)["sha256"] == SHA256
    path.write_bytes(b"tampered")
    with pytest.raises(UserError, match=rf"is not the file at .*expected sha256 {SHA256}.*Delete it and start again"):
        get(site, tmp_path / "file.bin")


def test_file_saved_by_hand_is_checked_and_used_without_network(tmp_path: Path) -> None:
    path = tmp_path / "file.bin"
    path.write_bytes(BODY)
    assert fetch("http://127.0.0.1:9/file.bin", path, SHA256, 307_200, progress=False, patience=QUICK) == path
    path.write_bytes(b"wrong")
    with pytest.raises(UserError, match="expected 307,200 bytes, received 5"):
        fetch("http://127.0.0.1:9/file.bin", path, SHA256, 307_200, progress=False, patience=QUICK)
    assert path.read_bytes() == b"wrong"  # the file belongs to the user


def test_missing_file_on_the_server_is_reported_at_once(site: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"absent: the server answers 404 Not Found\. Take it from elsewhere\."):
        get(site, tmp_path / "absent", "/absent", manual="Take it from elsewhere.")
    assert site.log == [("/absent", None)]


def test_without_network_the_message_tells_the_steps(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    url = f"http://127.0.0.1:{port}/file.bin"
    with pytest.raises(UserError) as caught:
        fetch(url, tmp_path / "file.bin", progress=False, patience=QUICK, manual="Or give data.root=DIR.")
    assert str(caught.value) == (
        f"Cannot download {url}: no connection to 127.0.0.1:{port}. Check the network and start again (data "
        f"received so far is kept), or get the file elsewhere and save it as {tmp_path / 'file.bin'}. "
        "Or give data.root=DIR."
    )


@pytest.mark.parametrize("url", ["file:///etc/hostname", "ftp://example.org/file"])
def test_other_addresses_are_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="only http and https"):
        fetch(url, tmp_path / "file")


def test_too_little_space_is_told_before_the_download(
    site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Usage(NamedTuple):
        free: int

    monkeypatch.setattr(transfer.shutil, "disk_usage", lambda path: Usage(1_000_000))
    site.files["/file.bin"] = BODY
    with pytest.raises(UserError, match=r"needs 67 MB in .*, but only 1 MB are free.*data\.cache=DIR"):
        get(site, tmp_path / "file.bin")
    assert leftovers(tmp_path) == []


def test_unwritable_folder_is_named(site: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file where a folder is needed")
    with pytest.raises(UserError, match=r"Cannot write .*file/inner/file\.bin.*data\.cache=DIR"):
        get(site, tmp_path / "file" / "inner" / "file.bin")


def test_threads_that_ask_together_cause_one_download(site: Any, tmp_path: Path) -> None:
    site.files["/file.bin"], site.delay = BODY, 0.2
    callers = [threading.Thread(target=get, args=(site, tmp_path / "file.bin")) for _ in range(5)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert (tmp_path / "file.bin").read_bytes() == BODY
    assert len(site.log) == 1


@pytest.mark.slow
def test_processes_that_ask_together_cause_one_download(site: Any, tmp_path: Path) -> None:
    site.files["/file.bin"], site.delay = BODY, 0.3
    code = (
        "import sys; from pathlib import Path; from variations.data.download import fetch; "
        "fetch(sys.argv[1], Path(sys.argv[2]))"
    )
    source = Path(transfer.__file__).parents[2]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, site.url + "/file.bin", str(tmp_path / "file.bin")],
            env={**os.environ, "PYTHONPATH": str(source)},
        )
        for _ in range(3)
    ]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert (tmp_path / "file.bin").read_bytes() == BODY
    assert len(site.log) == 1


def tar(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, link
    return made


def test_archive_unpacks_into_its_folder_once(tmp_path: Path) -> None:
    archive = tar(tmp_path / "a.tgz", (member("./dev", tarfile.DIRTYPE), b""), (member("./dev/one.en"), b"One.\n"))
    assert extract(archive, tmp_path / "out") == tmp_path / "out"
    assert (tmp_path / "out" / "dev" / "one.en").read_text() == "One.\n"
    archive.unlink()
    extract(archive, tmp_path / "out")  # nothing to do


def test_only_the_named_members_are_unpacked(tmp_path: Path) -> None:
    archive = tar(tmp_path / "a.tgz", *((member(f"t/{name}"), name.encode()) for name in ("a", "b", "c")))
    extract(archive, tmp_path / "out", ["t/b"])
    assert [path.name for path in (tmp_path / "out" / "t").iterdir()] == ["b"]
    with pytest.raises(UserError, match=r"a\.tgz lacks t/x, t/y"):
        extract(archive, tmp_path / "other", ["t/y", "t/b", "t/x"])
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (member("../escaped"), "'../escaped' would be written outside its folder"),
        (member("good/../../escaped"), "would be written outside its folder"),
        (member("/tmp/escaped"), "'/tmp/escaped' would be written outside its folder"),
        (member("link", tarfile.SYMTYPE, "/etc/passwd"), "link is a link"),
        (member("link", tarfile.LNKTYPE, "../../escaped"), "link is a link"),
        (member("device", tarfile.CHRTYPE), "device is not a regular file"),
        (member("pipe", tarfile.FIFOTYPE), "pipe is not a regular file"),
    ],
)
def test_unsafe_archive_leaves_nothing_behind(bad: tarfile.TarInfo, reason: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    archive = tar(tmp_path / "in" / "a.tgz", (member("good.txt"), b"good"), (bad, b""))
    with pytest.raises(UserError) as caught:
        extract(archive, tmp_path / "in" / "out")
    assert "is unsafe" in str(caught.value)
    assert reason in str(caught.value)
    assert leftovers(tmp_path / "in") == ["a.tgz"]
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


@pytest.mark.parametrize("content", [b"no archive at all", b"PK\x03\x04 cut off"])
def test_damaged_archive_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.tgz").write_bytes(content)
    with pytest.raises(UserError, match=r"a\.tgz is damaged .*delete it and start again"):
        extract(tmp_path / "a.tgz", tmp_path / "out")


def test_truncated_archive_is_named(tmp_path: Path) -> None:
    archive = tar(tmp_path / "a.tgz", (member("big"), os.urandom(100_000)))
    archive.write_bytes(archive.read_bytes()[:50_000])
    with pytest.raises(UserError, match=r"a\.tgz is damaged"):
        extract(archive, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("members", [None, ["first.txt"]])
@pytest.mark.parametrize("kind", ["gz", "bz2", "xz"])
def test_text_that_fails_its_archives_checksum_is_refused(kind: str, members: list[str] | None, tmp_path: Path) -> None:
    """A bit of the last text is flipped. Without compression (gz), the archive can be read to its end all the same."""
    archive, text = tmp_path / f"a.t{kind}", random.Random(1).randbytes(600_000)
    level: Any = {"compresslevel": 0} if kind == "gz" else {}
    with tarfile.open(archive, f"w:{kind}", **level) as made:
        for name in ("first.txt", "second.txt"):
            added = member(name)
            added.size = len(text)
            made.addfile(added, io.BytesIO(text))
    content = bytearray(archive.read_bytes())
    content[-100_000] ^= 1
    archive.write_bytes(content)
    with pytest.raises(UserError, match=r"a\.t\w+ is damaged .*delete it and start again"):
        extract(archive, tmp_path / "out", members)
    assert not (tmp_path / "out").exists()


def test_record_is_plain_json(site: Any, tmp_path: Path) -> None:
    site.files["/file.bin"] = BODY
    get(site, tmp_path / "file.bin")
    assert json.loads((tmp_path / "file.bin.json").read_text())["size"] == 307_200

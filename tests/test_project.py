"""A project's label: named, or read from `.git` without starting a program."""

from pathlib import Path

import pytest

from lorebank._project import find_label, project_label
from lorebank.errors import UsageError


def repository(folder: Path, url: str | None = None, remote: str = "origin") -> Path:
    """A folder that looks like a git checkout."""
    git = folder / ".git"
    git.mkdir(parents=True)
    text = "[core]\n\tbare = false\n" + (f'[remote "{remote}"]\n\turl = {url}\n' if url else "")
    (git / "config").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/Acme/Shop.git",
        "https://github.com/Acme/Shop",
        "https://github.com/Acme/Shop/",
        "https://github.com/Acme/Shop.git/",
        "git@github.com:Acme/Shop.git",
        "ssh://git@github.com:22/Acme/Shop.git",
        "https://user:token@github.com/Acme/Shop.git",
        "https://gitlab.example/group/Acme/Shop.git",
        "file:///srv/git/Acme/Shop.git",
    ],
)
def test_the_remote_gives_owner_and_name(tmp_path: Path, url: str) -> None:
    """Every spelling of one remote gives the same label."""
    assert find_label(repository(tmp_path / "x", url)) == "Acme-Shop"


@pytest.mark.parametrize("url", ["https://ana:s3cr3t@git.example/shop.git", "https://s3cr3t@git.example/shop.git"])
def test_a_remote_with_one_path_segment_leaks_no_credentials(tmp_path: Path, url: str) -> None:
    """No secret of a remote URL gets into a label, which is shown and sent."""
    label = find_label(repository(tmp_path / "x", url))
    assert "s3cr3t" not in label
    assert "shop" in label


def test_origin_wins_over_other_remotes(tmp_path: Path) -> None:
    """With several remotes the label is `origin`'s."""
    folder = repository(tmp_path / "x", "https://h/a/fork", remote="fork")
    with (folder / ".git/config").open("a", encoding="utf-8") as config:
        config.write('[remote "origin"]\n\turl = https://h/b/main\n')
    assert find_label(folder) == "b-main"


def test_another_remote_serves_where_there_is_no_origin(tmp_path: Path) -> None:
    """A single remote of any name gives the label."""
    assert find_label(repository(tmp_path / "x", "https://h/up/stream", remote="upstream")) == "up-stream"


def test_without_a_remote_the_checkout_folder_gives_the_label(tmp_path: Path) -> None:
    """No remote: the primary checkout's folder."""
    assert find_label(repository(tmp_path / "shop")) == "shop"


def test_a_folder_inside_a_checkout_has_the_checkouts_label(tmp_path: Path) -> None:
    """The label doesn't depend on how deep one stands."""
    inner = repository(tmp_path / "shop") / "src" / "deep"
    inner.mkdir(parents=True)
    assert find_label(inner) == "shop"


def test_worktrees_share_the_primary_checkouts_label(tmp_path: Path) -> None:
    """A worktree's memories are its project's."""
    main, tree = repository(tmp_path / "shop"), tmp_path / "shop-fix"
    own = main / ".git" / "worktrees" / "shop-fix"
    own.mkdir(parents=True)
    (own / "commondir").write_text("../..\n", encoding="utf-8")
    tree.mkdir()
    (tree / ".git").write_text(f"gitdir: {own}\n", encoding="utf-8")
    assert find_label(tree) == "shop"


def test_a_submodule_has_its_own_label(tmp_path: Path) -> None:
    """A submodule's `.git` file points at a folder of its own, with its own remote."""
    modules = repository(tmp_path / "shop") / ".git" / "modules" / "lib"
    modules.mkdir(parents=True)
    (modules / "config").write_text('[remote "origin"]\nurl = ../acme/lib.git\n', encoding="utf-8")
    lib = tmp_path / "shop" / "lib"
    lib.mkdir()
    (lib / ".git").write_text("gitdir: ../.git/modules/lib\n", encoding="utf-8")
    assert find_label(lib) == "acme-lib"


@pytest.mark.parametrize("config", ["no section = 1\n", "[remote\nurl = x", "\x00\x01", ""])
def test_a_garbled_git_config_falls_back_to_the_folder(tmp_path: Path, config: str) -> None:
    """A config that can't be read is no reason to fail."""
    folder = repository(tmp_path / "shop")
    (folder / ".git" / "config").write_text(config, encoding="utf-8")
    assert find_label(folder) == "shop"


def test_without_git_the_folder_gives_the_label(tmp_path: Path) -> None:
    """Outside a repository the label is the folder's name, without a path hash."""
    folder = tmp_path / "notes"
    folder.mkdir()
    assert find_label(folder) == "notes"


def test_a_folder_without_a_name_is_refused(tmp_path: Path) -> None:
    """At the file system's root the user must name the project."""
    with pytest.raises(UsageError, match="name the project yourself"):
        find_label(Path(tmp_path.anchor))


def test_auto_is_found_and_lower_cased(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`project="auto"` reads the working folder; labels are lower-case."""
    monkeypatch.chdir(repository(tmp_path / "x", "https://github.com/Acme/Shop.git"))
    assert project_label("auto") == "acme-shop"


def test_a_named_project_is_lower_cased() -> None:
    """Spellings don't part a project's memory."""
    assert project_label("MyShop") == "myshop"


def test_no_project_has_no_label() -> None:
    """`None` stays `None`."""
    assert project_label(None) is None


@pytest.mark.parametrize("label", ["", " ", "a/b", "a::b", ".", "..", "a\n", "x" * 193])
def test_a_bad_label_is_refused_by_name(label: str) -> None:
    """The error names `project`."""
    with pytest.raises(UsageError, match="`project`"):
        project_label(label)

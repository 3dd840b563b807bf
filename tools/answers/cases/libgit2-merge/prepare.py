"""A repository with 1,500 files and two branches that differ."""
import os
import pathlib
import subprocess

repository = pathlib.Path("repository")
repository.mkdir()
environment = dict(os.environ, GIT_CONFIG_NOSYSTEM="1", HOME=os.getcwd(), GIT_AUTHOR_DATE="2020-01-01T00:00:00Z",
                   GIT_COMMITTER_DATE="2020-01-01T00:00:00Z")


def git(*arguments: str) -> None:
    subprocess.run(["git", "-c", "user.name=Test", "-c", "user.email=test@example.com", *arguments], cwd=repository,
                   env=environment, check=True)


def change(numbers: range, text: str) -> None:
    for number in numbers:
        path = repository / f"directory{number % 30}" / f"file-with-a-long-name-{number}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{text} {number}\n" * 5)


git("init", "--quiet", "--initial-branch=main")
change(range(1500), "first")
git("add", "--all")
git("commit", "--quiet", "--message=first")
git("checkout", "--quiet", "-b", "feature")
change(range(0, 1500, 50), "feature")
git("commit", "--quiet", "--all", "--message=feature")
git("checkout", "--quiet", "main")
change(range(7, 1500, 50), "main")
git("commit", "--quiet", "--all", "--message=main")

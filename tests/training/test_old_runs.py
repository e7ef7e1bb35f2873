"""Runs that an older version began, whose run.toml lacks settings of today."""

import shutil
from pathlib import Path

from tests.commands import Run
from tests.conftest import write_grammar
from tests.trainings import SETTINGS, resume_here, weights
from transduce.model_folder import load_model


def test_a_run_from_before_epsilon_was_a_setting_resumes_with_the_old_one(
    transduce: Run, tmp_path: Path
) -> None:
    corpus, run = write_grammar(tmp_path, 100), tmp_path / "run"
    files = ("--source", corpus[0], "--target", corpus[1])
    code, _, err = transduce("train", run, *files, *SETTINGS, "--set", "model.norm_epsilon=1e-6")
    assert code == 0, err
    expected = weights(run)

    lines = (run / "run.toml").read_text().splitlines(keepends=True)
    old = [line for line in lines if not line.startswith("norm_epsilon")]
    assert len(old) == len(lines) - 1
    (run / "run.toml").write_text("".join(old))
    shutil.rmtree(run / "model")
    shutil.rmtree(run / "checkpoints" / "step-00000024")

    code, err = resume_here(transduce, run, corpus)
    assert code == 0, err
    assert load_model(run).config.model.norm_epsilon == 1e-6
    assert weights(run) == expected
    assert (run / "run.toml").read_text() == "".join(old), "settings of a run are written once"

    code, _, err = transduce("train", run, *files, *SETTINGS, "--set", "model.norm_epsilon=1e-5")
    assert code == 73
    assert "model.norm_epsilon: 1e-06 -> 1e-05" in err


def test_a_new_run_with_settings_written_by_a_user_has_the_epsilon_of_today(
    transduce: Run, tmp_path: Path
) -> None:
    corpus, run = write_grammar(tmp_path, 100), tmp_path / "run"
    (tmp_path / "run.toml").write_text("[train]\nsteps = 2\nvalidate_every = 2\n")
    files = ("--source", corpus[0], "--target", corpus[1], "--config", tmp_path / "run.toml")
    small = SETTINGS[: SETTINGS.index("data.batch_tokens=256") + 1]
    code, _, err = transduce("train", run, *files, *small, "--set", "text.vocab_size=400")
    assert code == 0, err
    assert load_model(run).config.model.norm_epsilon == 1e-5

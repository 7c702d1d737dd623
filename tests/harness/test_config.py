import copy
import hashlib
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.config import CoreSource, ExpectedCapture, Matrix, Promises
from harness.errors import ConfigError
from harness.matrix_file import LoadedMatrix, find_matrix, load
from harness.schemas import matrix_schema

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "matrix.yaml"
OUTCOMES = "passed, failed, crashed, hung, rejected, unsupported, not-run, infra-error"
TOP_LEVEL = (
    "core_checks, core_defects, cores, environment, expectations, iterations, plugin, plugins, "
    "rejections, scenarios, timeout_s"
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "matrix.yaml"


def read(file: Path, text: str) -> Matrix:
    file.write_text(text, encoding="utf-8")
    return load(file).matrix


def complaint(file: Path, text: str | bytes) -> str:
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert caught.value.exit_code == 2
    return caught.value.message.replace(str(file), "F")


# --- What is read


def test_an_empty_file_has_the_defaults(file: Path) -> None:
    for text in ("", "# nothing\n", "---\n", "{}", "null"):
        matrix = read(file, text)
        assert (matrix.iterations, matrix.timeout_s, matrix.plugin) == (20, 60.0, None)
        assert [source.releases for source in matrix.cores] == [">=1.24.4,<1.33"]
        assert [check.core for check in matrix.core_checks] == ["==1.26.0"]
        assert [rejection.reason for rejection in matrix.rejections] == ["version-check"]


def test_a_key_of_the_file_replaces_that_of_the_defaults_as_a_whole(file: Path) -> None:
    matrix = read(file, "core_checks: []\niterations: 3\n")
    assert matrix.core_checks == []
    assert matrix.iterations == 3
    assert len(matrix.rejections) == 1


def test_a_load_remembers_the_path_and_the_hash_of_the_bytes(file: Path) -> None:
    file.write_bytes(b"iterations: 7\r\n")
    loaded = load(file)
    assert loaded == LoadedMatrix(
        loaded.matrix, file, hashlib.sha256(b"iterations: 7\r\n").hexdigest()
    )
    assert loaded.matrix.iterations == 7


def test_a_load_remembers_where_each_expectation_stands(file: Path) -> None:
    one = "outcome: failed, why: It does."
    file.write_text(f"expectations:\n- {{{one}}}\n\n-\n  outcome: passed\n  why: It does.\n")
    assert load(file).expectation_lines == (2, 5)
    file.write_text("iterations: 7\n")
    assert load(file).expectation_lines == ()


def test_the_shipped_matrix_says_what_it_should() -> None:
    matrix = load(SHIPPED).matrix
    assert matrix.plugin == "reference"
    assert matrix.plugins["reference"].bundled
    entry = matrix.plugins["webgpu"]
    assert entry.requirement == "onnxruntime-ep-webgpu==0.4.0"
    assert entry.options.capture == {"enableGraphCapture": "1"}
    assert entry.options.cpu_nodes is not None
    assert entry.options.cpu_nodes.separator == "\n"
    (rejection,) = (one for one in matrix.expectations if one.outcomes == ("rejected",))
    assert (rejection.plugin, rejection.core) == ("webgpu", "==1.26.0")
    assert entry.promises == Promises()


def test_a_plugin_is_held_to_what_is_promised_and_to_no_more(file: Path) -> None:
    said = "plugins: {a: {path: x, promises: {alignment: 64}}}"

    promises = read(file, said).plugins["a"].promises

    assert promises == Promises(alignment=64)
    assert not promises.zeroed_memory
    assert not promises.byte_addresses
    with pytest.raises(ConfigError, match="alignment"):
        read(file, "plugins: {a: {path: x, promises: {alignment: 0}}}")
    with pytest.raises(ConfigError, match="48 is no alignment: alignments are powers of two"):
        read(file, "plugins: {a: {path: x, promises: {alignment: 48}}}")


def test_the_rejection_of_1_26_0_is_told_by_the_defaults_from_its_message(file: Path) -> None:
    rejection = read(file, "").rejections[0]
    message = (
        "ort_ep->ort_version_supported > 0 && ort_ep->ort_version_supported <= ORT_API_VERSION "
        "was false. OrtEp for 'WebGpuExecutionProvider' has invalid ort_version_supported=30 "
        "(expected 1..26)"
    )
    assert re.fullmatch(rejection.function, "CreateSessionFromArray")
    assert re.search(rejection.message, message)
    assert not re.fullmatch(rejection.function, "Run")


def test_find_matrix_takes_the_folder_s_own_and_otherwise_the_shipped(tmp_path: Path) -> None:
    shipped = find_matrix(tmp_path)
    assert shipped.read_bytes() == SHIPPED.read_bytes()
    own = tmp_path / "matrix.yaml"
    own.write_text("iterations: 2")
    assert find_matrix(tmp_path) == own


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("passed", ("passed",)),
        ("[passed, crashed]", ("passed", "crashed")),
    ],
)
def test_an_expectation_allows_one_outcome_or_several(
    file: Path, text: str, expected: tuple[str, ...]
) -> None:
    matrix = read(file, f"expectations: [{{outcome: {text}, why: w}}]")
    assert matrix.expectations[0].outcomes == expected


def test_a_sha256_is_kept_in_lower_case(file: Path) -> None:
    matrix = read(file, f'cores: [{{archive: a.tgz, sha256: "{"AB" * 32}"}}]')
    assert matrix.cores[0].sha256 == "ab" * 32


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_the_usual_encodings_are_read(file: Path, encoding: str) -> None:
    file.write_bytes("plugins: {a: {path: 'ü'}}".encode(encoding))
    assert load(file).matrix.plugins["a"].path == "ü"


def test_the_model_cannot_be_changed_after_it_was_validated(file: Path) -> None:
    matrix = read(file, "")
    with pytest.raises(ValueError, match="frozen"):
        setattr(matrix, "iterations", 3)  # noqa: B010 - mypy refuses the plain form, rightly


# --- Files that cannot be read, or are no YAML


def test_a_file_that_is_not_there_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path / "none.yaml")
    assert caught.value.message == (
        f"{tmp_path / 'none.yaml'} cannot be read: No such file or directory."
    )
    assert "--matrix" in caught.value.hint


def test_a_folder_and_an_impossible_path_are_errors(tmp_path: Path) -> None:
    for path in (tmp_path, Path("a\0b")):
        with pytest.raises(ConfigError, match="cannot be read"):
            load(path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [1,\n b: 2", "F:2: expected ',' or ']', but got '<stream end>' (while parsing a flow"),
        ("iterations: 3\n\ttimeout_s: 4", "F:2: "),
        ("iterations: 3\na: b: c", "F:2: mapping values are not allowed here."),
        ("iterations: 3\n  timeout_s: 4", "F:2: mapping values are not allowed here."),
        ('plugin: "a', "F:1: found unexpected end of stream (while scanning a quoted scalar"),
        ("plugin: *nowhere", "F:1: found undefined alias 'nowhere'"),
        ("a: 1\n---\nb: 2", "F:2: but found another document"),
        ("plugin: !!python/object:os.system x", "F:1: could not determine a constructor"),
        ("- a\n- b", "F:1: the file must be a mapping of keys to values."),
        ("\n\nword", "F:3: the file must be a mapping of keys to values."),
        ("\n? [a]\n: b", "F:2: found unhashable key"),
        ("\n<<: 3", "F:2: expected a mapping or list of mappings for merging"),
        (b"\niterations: \xff", "F:2: this is not UTF-8 text."),
        (b"\xff\xfea", "F:1: this is not UTF-16 text."),
        ("a: b\nc: \x00", "F:2: the character U+0000 is not allowed in YAML."),
        ('a: b\n"\\0": c', "F:2: a NUL or half a character cannot be part of any value."),
        ('a: b\nplugin: "\\ud800"', "F:2: a NUL or half a character cannot be part of any value."),
        ("[" * 5000, "F: this is nested too deeply, or contains itself."),
    ],
)
def test_what_is_no_yaml_is_an_error_with_its_line(
    file: Path, text: str | bytes, expected: str
) -> None:
    assert complaint(file, text).startswith(expected)


@pytest.mark.parametrize("tag", ["bool", "int", "float", "timestamp"])
def test_a_text_that_is_not_of_its_tag_is_an_error(file: Path, tag: str) -> None:
    assert complaint(file, f"\niterations: !!{tag} foo").startswith("F:2: ")


# --- Duplicate keys


@pytest.mark.parametrize(
    ("text", "key", "line", "first"),
    [
        ("iterations: 3\n\niterations: 4", "iterations", 3, 1),
        ("plugins:\n  a:\n    path: x\n    path: y", "path", 4, 3),
        ("plugins:\n  a: {path: x}\n  a: {path: x}", "a", 3, 2),
        ("cores:\n- releases: '>1'\n  releases: '>2'", "releases", 3, 2),
        ("iterations: 3\n'iterations': 4", "iterations", 2, 1),
    ],
)
def test_a_key_given_twice_is_an_error_that_names_both_lines(
    file: Path, text: str, key: str, line: int, first: int
) -> None:
    assert (
        complaint(file, text) == f'F:{line}: the key "{key}" stands twice, first on line {first}.'
    )


def test_a_key_that_overrides_a_merged_one_is_no_duplicate(file: Path) -> None:
    matrix = read(
        file,
        """
plugins:
  a: &a {path: one, ep_name: E}
  b: {<<: *a, path: two}
""",
    )
    assert matrix.plugins["b"].path == "two"
    assert matrix.plugins["b"].ep_name == "E"


def test_a_merge_of_what_itself_merges_and_overrides_is_no_duplicate(file: Path) -> None:
    # The inner mapping is built after the outer one has merged it.
    matrix = read(
        file,
        """
plugins:
  a:
    path: x
    options:
      always: &one {k: "1", other: "1"}
      capture: &two {<<: *one, k: "2"}
  b:
    path: y
    environment: {<<: *two, k: "3"}
""",
    )
    assert matrix.plugins["a"].options.capture == {"k": "2", "other": "1"}
    assert matrix.plugins["b"].environment == {"k": "3", "other": "1"}


def test_the_line_of_a_mistake_that_overrides_a_merged_value_is_its_own(file: Path) -> None:
    text = 'plugins:\n  a: &a {path: x}\n  b:\n    <<: *a\n    path: ""'
    assert complaint(file, text) == "F:5: plugins.b.path: should not be empty."


# --- What YAML reads in a way that nobody meant


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        ("1.30", "a number"),
        ("2", "a number"),
        ("no", "true or false"),
        ("On", "true or false"),
        ("2024-01-01", "a date or the like"),
    ],
)
def test_text_that_yaml_reads_otherwise_is_asked_for_in_quotes_as_it_was_written(
    file: Path, written: str, read_as: str
) -> None:
    text = f"plugins:\n  a:\n    path: x\n    version: {written}"
    assert complaint(file, text) == (
        f'F:4: plugins.a.version: write it in quotes, "{written}"; YAML reads {read_as}.'
    )


@pytest.mark.parametrize("written", ["010", "1:30", "1_0", "0x10", "0b1", "+", "9" * 5000])
def test_numbers_are_plain_decimal_digits(file: Path, written: str) -> None:
    assert complaint(file, f"\niterations: {written}").startswith("F:2: ")


@pytest.mark.parametrize("written", ["'10'", "ten", "2.5", "yes", "[1]", "{a: 1}", "1e3"])
def test_what_is_no_whole_number_is_said_so(file: Path, written: str) -> None:
    assert complaint(file, f"\niterations: {written}").startswith(
        "F:2: iterations: should be a whole number, not "
    )


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("\nplugins: {1: {path: x}}", "F:2: plugins.1"),
        ("\nplugins: {a: {path: x, environment: {1: '1'}}}", "F:2: plugins.a.environment.1"),
        ("\nscenarios: {2.5: {timeout_s: 1}}", "F:2: scenarios.2.5"),
    ],
)
def test_a_key_that_is_a_number_is_asked_for_in_quotes(file: Path, text: str, place: str) -> None:
    assert complaint(file, text) == f"{place}: write the key in quotes; YAML reads a number."


def test_a_key_that_yaml_reads_as_true_is_asked_for_in_quotes(file: Path) -> None:
    assert complaint(file, "yes: 1").endswith("write the key in quotes; YAML reads true or false.")


@pytest.mark.parametrize("key", ["cores", "plugins", "iterations", "timeout_s", "expectations"])
def test_a_key_without_a_value_is_said_to_be_empty(file: Path, key: str) -> None:
    assert complaint(file, f"\n{key}:\n") == (
        f"F:2: {key} is empty; give it a value, or leave the key out."
    )


# --- Unknown, missing and misspelt


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "\niteration: 3",
            (
                'F:2: unknown key "iteration"; perhaps you meant "iterations"? '
                f"Known here: {TOP_LEVEL}."
            ),
        ),
        ("zzz: 3", f'F:1: unknown key "zzz". Known here: {TOP_LEVEL}.'),
        (
            "cores:\n  - releases: '>1'\n    selct: all",
            (
                'F:3: unknown key "selct" in cores[0]; perhaps you meant "select"? Known '
                "here: archive, installed, package, path, releases, select, sha256, version."
            ),
        ),
        (
            # The plugin's name is also the name of a key.
            "plugins:\n  policy:\n    path: x\n    ep_nam: E",
            (
                'F:4: unknown key "ep_nam" in plugins.policy; perhaps you meant "ep_name"? Known '
                "here: bundled, device, environment, ep_name, no_device, options, path, policy, "
                "promises, registration_name, requirement, version."
            ),
        ),
        (
            "plugins:\n  a:\n    path: x\n    options:\n      cpu_nodes:\n        optoin: n",
            (
                'F:5: "option" is missing from plugins.a.options.cpu_nodes.\n'
                'F:6: unknown key "optoin" in plugins.a.options.cpu_nodes; perhaps you meant '
                '"option"? Known here: option, separator.'
            ),
        ),
        (
            (
                "plugins:\n  a:\n    path: x\n    policy:\n      rules:\n      - "
                "{mode: serialized, why: w}\n      - {mode: serialized, why: w, plugins: '>1'}"
            ),
            (
                'F:7: unknown key "plugins" in plugins.a.policy.rules[1]; perhaps you meant '
                '"plugin"? Known here: core, link, mode, plugin, why.'
            ),
        ),
        (
            "expectations:\n- outcome: passed\n  why: w\n  capture: {replays: 1}",
            (
                'F:4: unknown key "replays" in expectations[0].capture; perhaps you meant '
                '"host_replays"? Known here: host_replays, kernel_runs.'
            ),
        ),
        (
            "scenarios:\n  copy:\n    timeout: 3",
            (
                'F:2: "timeout_s" is missing from scenarios.copy.\n'
                'F:3: unknown key "timeout" in scenarios.copy; perhaps you meant '
                '"timeout_s"? Known here: timeout_s.'
            ),
        ),
        (
            '"\\e[31m": 3',
            f'F:1: unknown key "\\x1b[31m". Known here: {TOP_LEVEL}.',
        ),
    ],
)
def test_an_unknown_key_is_answered_with_the_right_one(
    file: Path, text: str, expected: str
) -> None:
    assert complaint(file, text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "expectations:\n- {outcome: pased, why: w}",
            (
                'F:2: expectations[0].outcome: "pased" is not one of '
                f'{OUTCOMES}; perhaps you meant "passed"?'
            ),
        ),
        (
            "expectations:\n- outcome:\n  - passed\n  - crash\n  why: w",
            (
                'F:4: expectations[0].outcome[1]: "crash" is not one of '
                f'{OUTCOMES}; perhaps you meant "crashed"?'
            ),
        ),
        (
            "expectations:\n- {outcome: passed, why: w, platform: darwin}",
            'F:2: expectations[0].platform: "darwin" is not one of linux, windows, macos.',
        ),
        (
            "expectations:\n- {outcome: passed, why: w, mode: serialised}",
            (
                'F:2: expectations[0].mode: "serialised" is not one of serialized, concurrent; '
                'perhaps you meant "serialized"?'
            ),
        ),
        (
            "cores: [{releases: '>1', select: latest}]",
            (
                'F:1: cores[0].select: "latest" is not one of all, latest-patch; perhaps you meant '
                '"latest-patch"?'
            ),
        ),
        (
            "plugin: webgp\nplugins: {webgpu: {path: x}}",
            'F:1: plugin: "webgp" has no entry under plugins; perhaps you meant "webgpu"?',
        ),
        ("\nplugin: x", 'F:2: plugin: "x" has no entry under plugins.'),
    ],
)
def test_a_misspelt_value_is_answered_with_the_right_one(
    file: Path, text: str, expected: str
) -> None:
    assert complaint(file, text) == expected


def test_all_mistakes_are_listed_in_the_order_of_their_lines(file: Path) -> None:
    text = "timeout_s: -1\ncores:\n- releases: abc\nitertions: 3\nplugins:\n  a: {}\n"
    lines = complaint(file, text).splitlines()
    assert [line.split(":")[1] for line in lines] == ["1", "3", "4", "6"]


# --- Every rule of the model


SHA = "0" * 64
ENTRY = "plugins:\n  a:\n    path: x\n    "
WRONG: list[tuple[str, str]] = [
    (
        "cores: [{}]",
        (
            "F:1: cores[0]: a core source has exactly one of releases, archive, path and "
            "installed; this one has none."
        ),
    ),
    (
        "cores:\n- path: x\n- path: x\n  installed: true",
        (
            "F:3: cores[1]: a core source has exactly one of releases, archive, path and "
            "installed; this one has path and installed."
        ),
    ),
    ("cores: [{installed: false}]", "F:1: cores[0]: a core source has exactly one of"),
    ("cores: [{archive: x.tgz}]", "F:1: cores[0]: an archive needs its sha256."),
    (
        f"cores: [{{archive: 'HTTP://x/y.tgz', sha256: '{SHA}'}}]",
        "F:1: cores[0]: an archive is a file or is fetched over https, nothing else.",
    ),
    (
        f"cores: [{{archive: 'ftp://x/y.tgz', sha256: '{SHA}'}}]",
        "F:1: cores[0]: an archive is a file or is fetched over https, nothing else.",
    ),
    (
        "cores: [{path: x, sha256: '00'}]",
        "F:1: cores[0].sha256: a sha256 is 64 hexadecimal digits.",
    ),
    (
        f"cores: [{{releases: '>1', sha256: '{SHA}'}}]",
        "F:1: cores[0]: sha256 belongs to an archive or a path; a lock holds those of releases.",
    ),
    (
        "cores: [{releases: '>1', version: '1.2'}]",
        "F:1: cores[0]: version does not go with releases; write it there, as ==VERSION.",
    ),
    (
        "cores: [{path: x, select: latest-patch}]",
        "F:1: cores[0]: select goes with releases only.",
    ),
    (
        "cores: [{releases: 1.24.4}]",
        'F:1: cores[0].releases: "1.24.4" is not a version specifier such as ">=1.24.4,<1.33".',
    ),
    (
        "cores: [{path: x, version: newest}]",
        'F:1: cores[0].version: "newest" is not a version such as "1.24.4".',
    ),
    ("cores: [{path: x, installed: 'true'}]", "F:1: cores[0].installed: should be true or false"),
    ("cores: {releases: '>1'}", "F:1: cores: should be a list, not a mapping."),
    ("cores: ['>1']", 'F:1: cores[0]: should be a mapping of keys to values, not ">1".'),
    ("cores: [{path: ''}]", "F:1: cores[0].path: should not be empty."),
    (
        "plugins: {a: {}}",
        (
            "F:1: plugins.a: a plugin has exactly one of requirement, path and bundled; this one "
            "has none."
        ),
    ),
    (
        "plugins: {a: {bundled: false}}",
        (
            "F:1: plugins.a: a plugin has exactly one of requirement, path and bundled; this one "
            "has none."
        ),
    ),
    (
        "plugins: {a: {path: x, bundled: true}}",
        (
            "F:1: plugins.a: a plugin has exactly one of requirement, path and bundled; this one "
            "has path and bundled."
        ),
    ),
    (
        "plugins: {a: {bundled: 1}}",
        'F:1: plugins.a.bundled: should be true or false, not "1".',
    ),
    (
        "plugins: {a: {path: x, requirement: y}}",
        (
            "F:1: plugins.a: a plugin has exactly one of requirement, path and bundled; this one "
            "has requirement and path."
        ),
    ),
    (
        "plugins: {a: {requirement: 'a = 1'}}",
        'F:1: plugins.a.requirement: "a = 1" is not a requirement such as "name==1.0".',
    ),
    ("plugins: {a b: {path: x}}", 'F:1: plugins.a b: "a b" is not a name for a plugin'),
    ("plugins: {../a: {path: x}}", 'F:1: plugins.../a: "../a" is not a name for a plugin'),
    ("plugins: [a]", "F:1: plugins: should be a mapping of keys to values, not a list."),
    (
        ENTRY + "environment: {'A=B': x}",
        'F:4: plugins.a.environment.A=B: "A=B" is not the name of an environment variable.',
    ),
    (
        ENTRY + "device: {type: tpu}",
        'F:4: plugins.a.device.type: "tpu" is not one of cpu, gpu, npu; perhaps you meant "',
    ),
    (
        ENTRY + "device: {index: -1}",
        'F:4: plugins.a.device.index: should be greater than or equal to 0, not "-1".',
    ),
    (
        ENTRY + "policy: {rules: [{mode: parallel, why: w}]}",
        'F:4: plugins.a.policy.rules[0].mode: "parallel" is not one of serialized, concurrent.',
    ),
    (
        ENTRY + "policy: {rules: [{mode: serialized}]}",
        'F:4: "why" is missing from plugins.a.policy.rules[0].',
    ),
    (
        ENTRY + "policy: {override: {variable: X, why: w, forces: {'1': concurrent}}}",
        'F:4: plugins.a.policy.override.forces.1: "concurrent" is not one of serialized.',
    ),
    (
        ENTRY + "policy: {override: {variable: X, why: w, forces: {}}}",
        "F:4: plugins.a.policy.override.forces: should not be empty.",
    ),
    (
        ENTRY + "policy: {override: {variable: '', why: w, forces: {'1': serialized}}}",
        'F:4: plugins.a.policy.override.variable: "" is not the name of an environment variable.',
    ),
    (
        ENTRY + "policy: {override: {variable: X, why: w, forces: {'1': serialized}, "
        "neutral: ['0', '1']}}",
        'F:4: plugins.a.policy.override: the value "1" cannot both force a mode and be neutral.',
    ),
    (
        ENTRY + "policy: {claims: [{api: -1, why: w}]}",
        "F:4: plugins.a.policy.claims[0].api: should be greater than or equal to 0",
    ),
    (
        (
            "core_checks:\n- {core: '==1.26.0', claimed_api_min: 26, claimed_api_max: 1, "
            "reason: r, why: w}"
        ),
        "F:2: core_checks[0]: claimed_api_min 26 is above claimed_api_max 1.",
    ),
    (
        "rejections: [{reason: r, function: '(', message: m, why: w}]",
        'F:1: rejections[0].function: "(" is not a regular expression: missing )',
    ),
    (
        "rejections: [{reason: r, function: f, message: 'a{99999999999}', why: w}]",
        'F:1: rejections[0].message: "a{99999999999}" is not a regular expression',
    ),
    (
        f"rejections: [{{reason: r, function: f, message: '{'(' * 5000}', why: w}}]",
        "F:1: rejections[0].message: ",
    ),
    (
        "expectations: [{why: w}]",
        "F:1: expectations[0]: an expectation says an outcome, a capture, or both.",
    ),
    (
        "expectations: [{capture: {kernel_runs: 1}, reason: r, why: w}]",
        "F:1: expectations[0]: a reason needs the outcome that it goes with.",
    ),
    ("expectations: [{outcome: [], why: w}]", "F:1: expectations[0].outcome: should not be empty."),
    (
        "expectations: [{outcome: {a: b}, why: w}]",
        "F:1: expectations[0].outcome: a mapping is not one of passed",
    ),
    (
        "expectations: [{capture: {}, why: w}]",
        "F:1: expectations[0].capture: an expected capture says kernel_runs, host_replays, or both",
    ),
    ("expectations: [{outcome: passed}]", 'F:1: "why" is missing from expectations[0].'),
    ("expectations: [{outcome: passed, why: ''}]", "F:1: expectations[0].why: should not be empty"),
    ("iterations: 0", 'F:1: iterations: should be greater than or equal to 1, not "0".'),
    ("iterations: 1000001", "F:1: iterations: should be less than or equal to 1000000"),
    ("timeout_s: 0", 'F:1: timeout_s: should be greater than 0, not "0".'),
    ("timeout_s: 86401", "F:1: timeout_s: should be less than or equal to 86400"),
    ("timeout_s: .inf", 'F:1: timeout_s: should be a finite number, not ".inf".'),
    ("timeout_s: .nan", 'F:1: timeout_s: should be a finite number, not ".nan".'),
    ("timeout_s: '60'", 'F:1: timeout_s: should be a number, not "60".'),
    ("timeout_s: " + "9" * 4000, "F:1: timeout_s: "),
    ("scenarios: {copy: 3}", 'F:1: scenarios.copy: should be a mapping of keys to values, not "3"'),
    ("scenarios: {copy: {timeout_s: -3}}", "F:1: scenarios.copy.timeout_s: should be greater than"),
]


@pytest.mark.parametrize(("text", "expected"), WRONG, ids=[text[:50] for text, _ in WRONG])
def test_each_wrong_value_has_its_own_message(file: Path, text: str, expected: str) -> None:
    message = complaint(file, text)
    assert message.startswith(expected)
    assert "\n" not in message
    assert not message.endswith(("..", "?."))
    assert len(message) < 400


def test_a_value_that_contains_itself_is_an_error(file: Path) -> None:
    complaint(file, "plugins: &a\n  b: *a")
    complaint(file, "cores: &a\n- *a")
    complaint(file, "plugins: {a: &a {path: x, options: *a}}")


def test_an_ambiguous_regular_expression_warns_nobody(file: Path) -> None:
    matrix = read(file, "rejections: [{reason: r, function: '[[a]', message: m, why: w}]")
    assert matrix.rejections[0].function == "[[a]"


def test_models_built_in_code_keep_the_same_rules() -> None:
    assert CoreSource(path="x", sha256="A" * 64).sha256 == "a" * 64
    with pytest.raises(ValueError, match="exactly one of"):
        CoreSource()
    with pytest.raises(ValueError, match="kernel_runs"):
        ExpectedCapture()


# --- The reference of all keys


SCHEMA = matrix_schema()
KEYS = {key for model in (SCHEMA, *SCHEMA["$defs"].values()) for key in model["properties"]}
DOCUMENT = (ROOT / "docs" / "matrix-yaml.md").read_text(encoding="utf-8")


def test_the_reference_names_every_key() -> None:
    assert len(KEYS) > 40
    assert [key for key in sorted(KEYS) if f"`{key}`" not in DOCUMENT] == []


EXAMPLES = re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.DOTALL)


@pytest.mark.parametrize("text", EXAMPLES, ids=range(len(EXAMPLES)))
def test_every_example_of_the_reference_loads(file: Path, text: str) -> None:
    read(file, text)


def test_the_examples_of_the_reference_show_every_key() -> None:
    text = "".join(EXAMPLES)
    shown = set(re.findall(r"(?:^|[ {])([a-z_0-9]+):", text, re.MULTILINE))
    assert KEYS - shown == set()


# --- Nothing but ConfigError


def only_config_errors(file: Path, raw: bytes) -> None:
    file.write_bytes(raw)
    try:
        loaded = load(file)
    except ConfigError as error:
        message = str(error)
    else:
        assert isinstance(loaded.matrix, Matrix)
        return
    assert message.startswith(str(file))
    assert message.encode()


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "matrix.yaml"


@settings(deadline=None)
@given(raw=st.binary(max_size=200))
def test_any_bytes_load_or_are_a_config_error(scratch: Path, raw: bytes) -> None:
    only_config_errors(scratch, raw)


PIECES = [
    *"[]{}:,-?&*!|>%@`\"'#\\\n\t ~=",
    "\n  ",
    "\n    - ",
    ": ",
    "- ",
    "<<: ",
    "&a ",
    "*a",
    "!!int ",
    "!!bool ",
    "!!float ",
    "!!timestamp ",
    "!!binary ",
    "!!set ",
    "!!omap ",
    "!!pairs ",
    "!!null ",
    "!!map ",
    "!!seq ",
    "!!str ",
    "!x ",
    "---\n",
    "...\n",
    "%YAML 1.1\n",
    "yes",
    "null",
    "1.30",
    "010",
    "0x",
    "1:30",
    "1e999",
    ".inf",
    "2024-13-45",
    "2024-01-01T99:00:00Z",
    "\\ud800",
    "\\0",
    "\x85",
    "\ufeff",
    "é",
    "cores",
    "plugins",
    "plugin",
    "policy",
    "rules",
    "override",
    "forces",
    "expectations",
    "outcome",
    "iterations",
    "timeout_s",
    "rejections",
    "message",
    "why",
]


@settings(deadline=None, max_examples=300)
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=25))
def test_any_yaml_like_text_loads_or_is_a_config_error(scratch: Path, pieces: list[str]) -> None:
    only_config_errors(scratch, "".join(pieces).encode())


JUNK: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.just(10**4000)
    | st.floats()
    | st.text(max_size=8)
    | st.dates()
    | st.binary(max_size=4)
    | st.sampled_from(["(", "[[a]", "a{9999999999}", ">=1", "==*", "===x", "1!1", "x @ y", "\x1b"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(max_size=5) | st.integers() | st.booleans() | st.none() | st.floats(),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container of the data with every key or index in it."""
    keys = list(value) if isinstance(value, dict) else range(len(value))
    found = [(value, key) for key in keys]
    for key in keys:
        if isinstance(value[key], dict | list):
            found += places(value[key])
    return found


EVERYTHING: dict[str, Any] = {}
for example in [SHIPPED.read_text(encoding="utf-8"), *EXAMPLES]:
    EVERYTHING.update(yaml.safe_load(example))


@settings(deadline=None, max_examples=300)
@given(data=st.data())
def test_any_damage_to_a_good_file_loads_or_is_a_config_error(
    scratch: Path, data: st.DataObject
) -> None:
    damaged = copy.deepcopy(EVERYTHING)
    for _ in range(data.draw(st.integers(1, 3))):
        container, key = data.draw(st.sampled_from(places(damaged)))
        if isinstance(container, dict) and data.draw(st.booleans()):
            new = data.draw(st.text(max_size=6) | st.integers() | st.none() | st.booleans())
            container[new] = container.pop(key)
        else:
            container[key] = data.draw(JUNK)
    only_config_errors(scratch, yaml.safe_dump(damaged, allow_unicode=True).encode())

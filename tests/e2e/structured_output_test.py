"""Structured output over HTTP and on the command line, with real small models: what comes back is valid."""

import json

import jsonschema
import pytest

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 12},
        "born": {"type": "string", "format": "date"},
        "age": {"type": "integer", "minimum": 1, "maximum": 120},
        "share": {"type": "number", "minimum": 0, "maximum": 1},
        "kind": {"enum": ["red", "green", None, 7]},
        "tags": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]{2,6}$"}, "minItems": 1, "maxItems": 3},
        "friend": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/friend"}]},
    },
    "required": ["name", "born", "age", "share", "kind", "tags", "friend"],
    "additionalProperties": False,
    "$defs": {"friend": {"type": "object", "properties": {"id": {"type": "integer", "minimum": 0, "maximum": 9999}},
                         "required": ["id"]}},
}

SCHEMAS = {
    "const": ({"const": "hello"}, '"hello"'),
    "integers": ({"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 99}, "minItems": 3,
                  "maxItems": 5}, None),
    "tuple": ({"prefixItems": [{"type": "boolean"}, {"enum": ["a", "b"]}], "items": False}, None),
    "uuid": ({"type": "string", "format": "uuid"}, None),
    "map": ({"type": "object", "additionalProperties": {"type": "boolean"}, "minProperties": 1, "maxProperties": 2}, None),
    "person": (PERSON, None),
}


def complete(client, **fields):
    body = {"prompt": "Answer in JSON:\n", "n_predict": 200, "seed": 3, "cache_prompt": False, **fields}
    reply = client.post("/completion", json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


@pytest.mark.parametrize("temperature", [0, 1.2])
@pytest.mark.parametrize("name", SCHEMAS)
def test_answers_are_valid_under_the_schema(server, name, temperature):
    schema, exact = SCHEMAS[name]
    reply = complete(server.client, json_schema=schema, temperature=temperature)
    assert reply["stop_type"] == "eos", "a bounded schema ends by itself"
    value = json.loads(reply["content"])
    jsonschema.validate(value, schema, cls=jsonschema.Draft202012Validator,
                        format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
    if exact:
        assert reply["content"] == exact
    if name == "person":
        assert list(value) == list(PERSON["properties"]), "properties keep the schema's order"
    assert reply["generation_settings"]["grammar"].startswith("root ::=")


@pytest.mark.parametrize("response_format", [
    {"type": "json_object"},
    {"type": "json_object", "schema": {"const": [1, {"a": None}]}},
    {"type": "json_schema", "json_schema": {"name": "x", "schema": {"enum": ["yes", "no"]}}},
])
def test_response_format(server, response_format):
    reply = complete(server.client, response_format=response_format, temperature=0, n_predict=60)
    if "schema" in response_format:
        assert reply["content"] == '[1,{"a":null}]'
    elif "json_schema" in response_format:
        assert reply["content"] in ('"yes"', '"no"')
    else:
        assert reply["content"].startswith("{")
    assert reply["content"].strip() == reply["content"]


def test_a_grammar_wins_over_a_schema_and_ends_under_ignore_eos(server):
    reply = complete(server.client, grammar='root ::= "left" | "right"', json_schema={"const": 1}, ignore_eos=True)
    assert reply["content"] in ("left", "right")
    assert reply["stop_type"] == "eos"


def test_an_unfinished_text_is_a_prefix(server):
    reply = complete(server.client, json_schema=PERSON, n_predict=7)
    assert reply["stop_type"] == "limit"
    assert reply["content"].startswith("{")


def test_a_lazy_grammar_sleeps_until_its_word(server):
    fields = {"prompt": "1 2 3 4 5 6 7 8", "temperature": 0, "n_predict": 24}
    free = complete(server.client, **fields)["content"]
    word = free[6:8]
    lazy = complete(server.client, **fields, grammar=f'root ::= "{word}" "<done>"', grammar_lazy=True,
                    grammar_triggers=[{"type": "word", "value": word}])
    at = free.index(word)
    assert lazy["content"] == free[:at] + word + "<done>"


@pytest.mark.parametrize("fields, part", [
    ({"grammar": "root ::= ("}, "Failed to initialize samplers: failed to parse grammar: line 1, column"),
    ({"grammar": "root ::= root"}, "left-recursive"),
    ({"json_schema": {"type": "hiccup"}}, "JSON schema conversion failed: at #: unknown type 'hiccup'"),
    ({"grammar": 'root ::= "a"', "grammar_lazy": True}, "at least one trigger"),
])
def test_bad_grammars_and_schemas_are_400(server, fields, part):
    reply = server.client.post("/completion", json={"prompt": "a", **fields})
    assert reply.status_code == 400
    assert reply.json()["error"]["type"] == "invalid_request_error"
    assert part in reply.json()["error"]["message"]


def test_drafts_leave_structured_text_as_it_is(start_server, model):
    target, drafter = model("qwen2.5-coder-1.5b-q4_k_m"), model("qwen2.5-coder-0.5b-q4_k_m")
    client = start_server("-m", target, "-md", drafter, "-c", "1024", "--spec-draft-n-max", "8", "--no-spec-draft-adaptive").client
    accepted = 0
    for temperature in (0, 0.8):
        fields = {"json_schema": PERSON, "temperature": temperature, "n_predict": 120}
        plain = complete(client, **fields, **{"speculative.n_max": 0})
        jsonschema.validate(json.loads(plain["content"]), PERSON)
        for n_max in (3, 8):
            drafted = complete(client, **fields, **{"speculative.n_max": n_max})
            assert drafted["content"] == plain["content"]
            accepted += drafted["timings"].get("draft_n_accepted", 0)
        relaxed = complete(client, **fields, **{"speculative.n_max": 4, "speculative.relaxed_top_n": 5})
        if relaxed["stop_type"] == "eos":
            jsonschema.validate(json.loads(relaxed["content"]), PERSON)
    assert accepted > 0


def test_run_takes_grammars_and_schemas_also_from_files(foresay, smollm, tmp_path):
    grammar = tmp_path / "answer.gbnf"
    grammar.write_text('# two answers\nroot ::= "yes" | "no"\n')
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 2}')
    base = ["run", "-m", smollm, "-p", "Is water wet?", "-n", "20", "--temp", "0"]
    assert foresay(*base, "--grammar-file", grammar).stdout.strip().endswith(("yes", "no"))
    assert foresay(*base, "--grammar", 'root ::= "maybe"').stdout.strip().endswith("maybe")
    out = foresay(*base, "-jf", schema).stdout
    assert len(json.loads(out[out.index("["):])) == 2
    out = foresay(*base, "-j", '{"const": {"a": [1]}}').stdout
    assert out.strip().endswith('{"a":[1]}')

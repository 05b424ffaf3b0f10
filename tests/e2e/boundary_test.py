"""Drafts on and off say the same at every place where a reply may end: every budget, every stop string, with log-probabilities,
bias, penalties, grammars and seeds. The drafter is the model itself, so greedy drafts are accepted whole and ends fall on every offset of
one; `speculative.n_max` 0 is plain decoding on the same server, and no controller leaves drafts out."""

import json

import pytest

PROMPT = 'def quicksort(xs):\n    """Return a sorted copy of xs."""\n'
N = 16
N_MAX = 5
DRAFTED = {"n": 0}
THINKER = "{{ messages[0].content }}<think>\n{# </think> #}"  # opens thoughts; the model here never closes them itself


@pytest.fixture(scope="module")
def ask(binary, clean_env, smollm):
    from conftest import Server
    command = [str(binary), "serve", "--port", "0", "-m", str(smollm), "-c", "1024", "-np", "1", "--spec-draft-model", str(smollm),
               "--spec-draft-n-max", str(N_MAX), "--no-spec-draft-adaptive", "--chat-template", THINKER]
    running = Server(command, clean_env).wait()

    def post(**fields):
        body = {"prompt": PROMPT, "n_predict": N, "temperature": 0, "return_tokens": True, **fields}
        reply = running.client.post("/completion", json=body)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def stream(**fields):
        """What the events say of the text: all but times, drafts and the settings' echo."""
        body = {"prompt": PROMPT, "temperature": 0, "stream": True, **fields}
        with running.client.stream("POST", "/completion", json=body) as reply:
            assert reply.status_code == 200
            events = [json.loads(line[6:]) for line in reply.iter_lines() if line.startswith("data: ")]
        assert len(events) > 1
        return [{k: v for k, v in event.items() if k not in ("timings", "generation_settings")} for event in events]

    def chat(**fields):
        body = {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": N, "temperature": 0, "seed": 5, **fields}
        reply = running.client.post("/v1/chat/completions", json=body)
        assert reply.status_code == 200, reply.text
        return reply.json()

    post.chat = chat
    post.stream = stream
    yield post
    running.stop()


def both(ask, **fields):
    """The reply, after it was compared with plain decoding's."""
    plain = ask(**{**fields, "speculative.n_max": 0})
    drafted = ask(**fields)
    assert "draft_n" not in plain["timings"]
    DRAFTED["n"] += drafted["timings"].get("draft_n_accepted", 0)
    for key in ("content", "tokens", "stop_type", "stopping_word", "tokens_predicted", "tokens_evaluated", "truncated", "tokens_cached",
                "completion_probabilities"):
        assert drafted.get(key) == plain.get(key), (key, fields)
    return drafted


@pytest.fixture(scope="module")
def whole(ask):
    reply = both(ask)
    assert reply["tokens_predicted"] == N and DRAFTED["n"] > N // 2, "the drafts must matter"
    return reply


def test_every_budget(ask, whole):
    for n in range(1, N):
        reply = both(ask, n_predict=n, n_probs=2)
        assert reply["tokens"] == whole["tokens"][:n] and reply["stop_type"] == "limit"
        assert len(reply["completion_probabilities"]) == n


def test_every_stop_string(ask, whole):
    text = whole["content"]
    for begin in range(len(text) - 3):
        word = text[begin:begin + 3]
        reply = both(ask, stop=[word])
        assert reply["content"] == text[:text.index(word)] and reply["stopping_word"] == word


def test_nothing_behind_an_end_stays_in_the_cache(ask, whole):
    for end in ({"n_predict": n} for n in range(1, N_MAX + 2)):
        reply = ask(**end)
        longer = {"prompt": PROMPT + reply["content"] + "\n# and then", "n_predict": 6}
        warm = ask(**longer)
        assert warm["timings"]["cache_n"] > 0
        assert warm["tokens"] == ask(**longer, cache_prompt=False)["tokens"], end


def test_streams_have_the_same_events(ask):
    for n in (N_MAX, N_MAX + 1, N - 1):
        fields = {"n_predict": n, "n_probs": 2, "stop": ["lambda"]}
        assert ask.stream(**fields) == ask.stream(**fields, **{"speculative.n_max": 0})


@pytest.mark.parametrize("fields", [
    {"n_probs": 4}, {"n_probs": 3, "post_sampling_probs": True, "temperature": 0.7, "seed": 3},
    {"repeat_penalty": 1.3}, {"presence_penalty": 1.5, "frequency_penalty": 0.5}, {"dry_multiplier": 0.8, "dry_allowed_length": 1},
    {"logit_bias": [[" return", -3.0], [" len", 2.0]]}, {"ignore_eos": True, "temperature": 1.0, "seed": 11},
    {"temperature": 0.8, "seed": 1}, {"temperature": 0.8, "seed": 2, "top_k": 5}, {"temperature": 1.5, "seed": 3, "min_p": 0.02},
    {"temperature": 0.8, "seed": 4, "mirostat": 2}, {"temperature": 0.8, "seed": 5, "xtc_probability": 0.5},
    {"grammar": 'root ::= " "* "return" [ a-z()]+ "\\n" .*'}, {"temperature": 0.9, "seed": 6, "grammar": 'root ::= (" " [a-z]{1,6})+ "\\n" .*'},
], ids=lambda fields: "-".join(fields))
def test_every_sampler(ask, fields):
    for n in (N, 8):
        both(ask, n_predict=n, **fields)


@pytest.mark.parametrize("temperature", [0, 0.9])
def test_a_thinking_budget_ends_thoughts_at_every_offset(ask, temperature):
    free = ask.chat(temperature=temperature)["choices"][0]["message"]
    assert not free["content"], "without a budget it thinks on"
    for budget in range(N_MAX + 3):
        fields = {"temperature": temperature, "reasoning_budget_tokens": budget}
        drafted = ask.chat(**fields)["choices"][0]["message"]
        assert drafted == ask.chat(**fields, **{"speculative.n_max": 0})["choices"][0]["message"], budget
        assert drafted["content"], budget
        assert free["reasoning_content"].startswith(drafted.get("reasoning_content", ""))
        assert budget > 0 or not drafted.get("reasoning_content")
    assert drafted["reasoning_content"]  # of the largest budget (the first tokens may be blanks, which don't show)


def test_every_length_of_draft(ask, whole):
    for n_max in range(1, N_MAX):
        reply = ask(**{"speculative.n_max": n_max, "n_probs": 1})
        assert reply["tokens"] == whole["tokens"]

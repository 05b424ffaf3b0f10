"""OpenAI's own Python client against a real model."""

import json

import pytest

openai = pytest.importorskip("openai")

PROMPT = 'def quicksort(xs):\n    """Return a sorted copy of xs."""\n'


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=120)


@pytest.fixture(scope="module")
def plain(server):
    return server.client.post("/completion", json={"prompt": PROMPT, "n_predict": 12, "temperature": 0}).json()["content"]


def test_models_lists_the_one(client, smollm):
    models = client.models.list().data
    assert [m.id for m in models] == [str(smollm)]
    assert models[0].object == "model" and models[0].created > 0


def test_completion_equals_the_native_text(client, plain):
    reply = client.completions.create(model="any", prompt=PROMPT, max_tokens=12, temperature=0)
    assert reply.choices[0].text == plain
    assert reply.choices[0].finish_reason == "length"
    assert reply.usage.completion_tokens == 12
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + 12
    again = client.completions.create(model="any", prompt=PROMPT, max_tokens=12, temperature=0)
    assert again.choices[0].text == plain
    assert again.usage.prompt_tokens_details.cached_tokens == reply.usage.prompt_tokens - 1


def test_streamed_completion_joins_to_the_same_text_and_ends_with_usage(client, plain):
    chunks = list(client.completions.create(model="any", prompt=PROMPT, max_tokens=12, temperature=0, stream=True,
                                            stream_options={"include_usage": True}))
    assert "".join(c.choices[0].text for c in chunks if c.choices) == plain
    assert len({c.id for c in chunks}) == 1
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "length"
    assert not chunks[-1].choices and chunks[-1].usage.completion_tokens == 12


def test_choices_share_a_prompt_and_differ_by_seed(client):
    request = dict(model="any", prompt=PROMPT, max_tokens=10, temperature=1.2, seed=7)
    both = client.completions.create(n=2, **request)
    assert [c.index for c in both.choices] == [0, 1]
    alone = [client.completions.create(**{**request, "seed": seed}).choices[0].text for seed in (7, 8)]
    assert [c.text for c in both.choices] == alone
    assert both.usage.completion_tokens == 20


def test_stop_bias_and_logprobs(client, plain):
    word = plain[4:8]
    stopped = client.completions.create(model="any", prompt=PROMPT, max_tokens=12, temperature=0, stop=[word])
    assert stopped.choices[0].text == plain[:plain.index(word)] and stopped.choices[0].finish_reason == "stop"
    scored = client.completions.create(model="any", prompt=PROMPT, max_tokens=3, temperature=0, logprobs=2)
    logprobs = scored.choices[0].logprobs
    assert "".join(logprobs.tokens) == scored.choices[0].text
    assert all(value <= 0 for value in logprobs.token_logprobs) and all(len(top) == 2 for top in logprobs.top_logprobs)
    first = logprobs.content[0]["id"]  # the peer's form, beside OpenAI's
    banned = client.completions.create(model="any", prompt=PROMPT, max_tokens=3, temperature=0, logit_bias={str(first): -100})
    assert banned.choices[0].text != scored.choices[0].text


def test_errors_are_the_clients_exceptions(client):
    with pytest.raises(openai.BadRequestError) as refused:
        client.completions.create(model="any", prompt="word " * 5000)
    assert refused.value.body["type"] == "exceed_context_size_error"
    assert refused.value.body["n_prompt_tokens"] > refused.value.body["n_ctx"]
    with pytest.raises(openai.BadRequestError):
        client.completions.create(model="any", prompt="a", n=99)
    with pytest.raises(openai.BadRequestError):
        client.completions.create(model="any", prompt="a", echo=True)
    with pytest.raises(openai.NotFoundError):
        client.files.list()


def test_keys_are_asked(start_server, smollm):
    server = start_server("-m", smollm, "-c", "512", "--api-key", "secret")
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="wrong", max_retries=0).models.list()
    good = openai.OpenAI(base_url=f"{server.url}/v1", api_key="secret", max_retries=0)
    assert good.completions.create(model="any", prompt="Hi", max_tokens=2).usage.completion_tokens == 2
    assert server.client.get("/health").status_code == 200


def test_a_full_queue_answers_429_with_retry_after(start_server, smollm):
    server = start_server("-m", smollm, "-c", "2048", "-np", "1", "--max-queued", "0")
    body = {"prompt": PROMPT, "n_predict": 1500, "temperature": 0, "ignore_eos": True, "stream": True}
    with server.client.stream("POST", "/completion", json=body) as running:
        lines = running.iter_lines()
        assert json.loads(next(lines)[6:])["stop"] is False
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="x", max_retries=0)
        with pytest.raises(openai.RateLimitError) as refused:
            client.completions.create(model="any", prompt="Hi", max_tokens=2)
        assert int(refused.value.response.headers["retry-after"]) >= 1


def test_slots_are_saved_and_restored(start_server, smollm, tmp_path):
    body = {"prompt": PROMPT, "n_predict": 16, "temperature": 0, "id_slot": 0}
    server = start_server("-m", smollm, "-c", "512", "--slot-save-path", tmp_path)
    first = server.client.post("/completion", json=body).json()
    saved = server.client.post("/slots/0?action=save", json={"filename": "a.slot"}).json()
    assert saved["n_saved"] == first["tokens_cached"] and (tmp_path / "a.slot").stat().st_size == saved["n_written"]
    assert server.stop() == 0
    server = start_server("-m", smollm, "-c", "1024", "-np", "2", "--slot-save-path", tmp_path)
    restored = server.client.post("/slots/1?action=restore", json={"filename": "a.slot"}).json()
    assert restored["n_restored"] == saved["n_saved"]
    second = server.client.post("/completion", json={**body, "id_slot": 1}).json()
    assert second["content"] == first["content"]
    assert second["timings"]["prompt_n"] == 1
    refused = server.client.post("/slots/0?action=restore", json={"filename": "../a.slot"})
    assert refused.status_code == 400 and refused.json()["error"]["message"] == "Invalid filename"


def test_embeddings_of_a_real_model(start_server, smollm):
    server = start_server("-m", smollm, "-c", "1024", "-np", "2", "--embeddings")
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="x", max_retries=0)
    texts = ["The cat sat on the mat.", "A cat is sitting on a rug.", "Interest rates rose by two percent."]
    many = client.embeddings.create(model="m", input=texts)
    vectors = [e.embedding for e in many.data]
    assert [len(v) for v in vectors] == [576] * 3
    assert all(abs(sum(x * x for x in v) - 1) < 1e-4 for v in vectors)

    def alike(a, b):
        return sum(x * y for x, y in zip(a, b))

    assert alike(vectors[0], vectors[1]) > alike(vectors[0], vectors[2])
    for text, vector in zip(texts, vectors):  # beside others or alone: the same numbers
        assert client.embeddings.create(model="m", input=text).data[0].embedding == vector
    # Such a server completes texts as well, and no drafter or tap changes them.
    assert client.completions.create(model="m", prompt="Hi", max_tokens=3, temperature=0).usage.completion_tokens == 3
    with pytest.raises(openai.BadRequestError):
        client.embeddings.create(model="m", input="word " * 5000)


def test_embeddings_name_their_flag_when_off(client):
    with pytest.raises(openai.InternalServerError) as refused:
        client.embeddings.create(model="m", input="a")
    assert refused.value.status_code == 501 and "--embeddings" in str(refused.value)

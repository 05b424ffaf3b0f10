"""Chat through OpenAI's own Python client, against SmolLM2-Instruct with its own template."""

import pytest

openai = pytest.importorskip("openai")

ASK = [{"role": "user", "content": "What is the capital of France? Answer with one word."}]


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=120)


def chat(client, **fields):
    return client.chat.completions.create(**{"model": "any", "messages": ASK, "max_tokens": 24, "temperature": 0, **fields})


def test_a_chat_is_the_templates_prompt_completed(client, server):
    prompt = server.client.post("/apply-template", json={"messages": ASK}).json()["prompt"]
    assert ASK[0]["content"] in prompt and prompt.rstrip().endswith("assistant")
    native = server.client.post("/completion", json={"prompt": prompt, "n_predict": 24, "temperature": 0}).json()
    reply = chat(client)
    assert reply.choices[0].message.content == native["content"]
    assert reply.choices[0].message.role == "assistant"
    assert "Paris" in reply.choices[0].message.content
    assert reply.choices[0].finish_reason == {"eos": "stop", "limit": "length"}[native["stop_type"]]
    assert reply.usage.prompt_tokens == native["tokens_evaluated"]
    counted = server.client.post("/v1/chat/completions/input_tokens", json={"messages": ASK}).json()
    assert counted["input_tokens"] == native["tokens_evaluated"]


def test_a_streamed_chat_joins_to_the_same(client):
    whole = chat(client).choices[0].message.content
    chunks = list(chat(client, stream=True, stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == whole
    assert chunks[-1].usage.completion_tokens > 0


def test_choices_logprobs_and_stops(client):
    both = chat(client, n=2, temperature=1.0, seed=3)
    alone = [chat(client, temperature=1.0, seed=seed).choices[0].message.content for seed in (3, 4)]
    assert [c.message.content for c in both.choices] == alone
    scored = chat(client, logprobs=True, top_logprobs=3).choices[0]
    assert len(scored.logprobs.content[0].top_logprobs) == 3
    assert "".join(t.token for t in scored.logprobs.content).startswith(scored.message.content[:5])
    text = scored.message.content
    assert chat(client, stop=[text[3:6]]).choices[0].message.content == text[:3]


def test_a_conversation_reuses_its_beginning(client):
    first = chat(client)
    more = ASK + [{"role": "assistant", "content": first.choices[0].message.content}, {"role": "user", "content": "And of Italy?"}]
    second = chat(client, messages=more)
    assert second.usage.prompt_tokens_details.cached_tokens >= first.usage.prompt_tokens
    fresh = chat(client, messages=more, extra_body={"cache_prompt": False})
    assert fresh.choices[0].message.content == second.choices[0].message.content
    assert fresh.usage.prompt_tokens_details.cached_tokens == 0


def test_a_last_assistant_message_is_continued(client):
    reply = chat(client, messages=ASK + [{"role": "assistant", "content": "The capital is"}])
    assert "Paris" in reply.choices[0].message.content


@pytest.mark.parametrize("fields", [
    {"messages": [{"role": "user"}]}, {"messages": [{"role": "user", "content": 5}]},
    {"tool_choice": "maybe"}, {"response_format": {"type": "xml"}}, {"top_logprobs": 2}, {"n": 77},
    {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}]},
    {"extra_body": {"chat_template_kwargs": {"enable_thinking": "yes"}}},
])
def test_bad_chats_are_bad_requests(client, fields):
    with pytest.raises((openai.BadRequestError, TypeError)):
        chat(client, **fields)


def test_responses_and_messages_give_the_same_text(client, server):
    whole = chat(client).choices[0].message.content
    response = client.responses.create(model="any", input=ASK[0]["content"], max_output_tokens=24, temperature=0)
    assert response.output_text == whole
    text = ""
    for event in client.responses.create(model="any", input=ASK[0]["content"], max_output_tokens=24, temperature=0, stream=True):
        text += event.delta if event.type == "response.output_text.delta" else ""
    assert text == whole
    message = server.client.post("/v1/messages", json={"messages": ASK, "max_tokens": 24, "temperature": 0}).json()
    assert "".join(block["text"] for block in message["content"]) == whole

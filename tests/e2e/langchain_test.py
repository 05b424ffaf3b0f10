"""LangChain's client (langchain-openai) against real models: chat, streams, a loop of tool calls, structured output, embeddings, errors."""

import json

import openai
import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage, convert_to_openai_messages
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel, Field

ASK = "What is the capital of France? Answer with one word."


@tool
def get_weather(city: str) -> str:
    """Tells the present weather of a city."""
    return f"It is sunny in {city}, 21 degrees."


@tool
def add(a: int, b: int) -> int:
    """Adds two whole numbers."""
    return a + b


class City(BaseModel):
    """A city."""
    name: str = Field(description="its name")
    country: str
    n_rivers: int


@pytest.fixture(scope="module")
def qwen(binary, clean_env, model):
    from conftest import Server
    path = model("qwen2.5-coder-0.5b-q4_k_m")
    running = Server([str(binary), "serve", "--port", "0", "-m", str(path), "-c", "4096", "-np", "2", "--embeddings"], clean_env).wait()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def llm(qwen):
    return ChatOpenAI(model="any", base_url=f"{qwen.url}/v1", api_key="none", temperature=0, max_tokens=64, max_retries=0, timeout=120)


def test_invoke_and_stream_say_the_same(llm):
    messages = [SystemMessage("You answer briefly."), HumanMessage(ASK)]
    whole = llm.invoke(messages)
    assert "Paris" in whole.content
    assert whole.response_metadata["finish_reason"] == "stop"
    assert whole.usage_metadata["output_tokens"] > 0
    chunks = list(llm.stream(messages, stream_usage=True))
    assert "".join(chunk.content for chunk in chunks) == whole.content
    assert sum(chunk.usage_metadata["output_tokens"] for chunk in chunks if chunk.usage_metadata) == whole.usage_metadata["output_tokens"]


def test_batches_equal_single_questions(llm):
    questions = [ASK, "What is the capital of Italy? Answer with one word.", "What is 2 + 2? Answer with one number."]
    assert [m.content for m in llm.batch(questions)] == [llm.invoke(q).content for q in questions]


def test_a_loop_of_tools(llm, qwen):
    tools = {"get_weather": get_weather, "add": add}
    forced = llm.bind_tools(list(tools.values()), tool_choice="get_weather")
    messages = [HumanMessage("What is the weather in Oslo?")]
    reply = forced.invoke(messages)
    assert [call["name"] for call in reply.tool_calls] == ["get_weather"]
    assert "Oslo" in reply.tool_calls[0]["args"]["city"]
    assert reply.response_metadata["finish_reason"] == "tool_calls"
    messages.append(reply)
    for call in reply.tool_calls:
        messages.append(ToolMessage(tools[call["name"]].invoke(call["args"]), tool_call_id=call["id"]))
    # What so small a model makes of the result isn't asked for; that it gets to see it is.
    answer = llm.invoke(messages)
    assert isinstance(answer, AIMessage) and answer.content and answer.response_metadata["finish_reason"] in ("stop", "length")
    prompt = qwen.client.post("/apply-template", json={"messages": convert_to_openai_messages(messages)}).json()["prompt"]
    assert "It is sunny in Oslo" in prompt and '"name": "get_weather"' in prompt


@pytest.mark.parametrize("choice", ["required", "any", "add"])
def test_a_required_call_is_a_call_streamed_and_whole(llm, choice):
    bound = llm.bind_tools([get_weather, add], tool_choice=choice, parallel_tool_calls=False)
    whole = bound.invoke("Add 3 and 4.")
    assert len(whole.tool_calls) == 1 and not whole.invalid_tool_calls
    call = whole.tool_calls[0]
    if choice == "add":
        assert call["name"] == "add"
    assert all(isinstance(v, int) for v in call["args"].values()) if call["name"] == "add" else isinstance(call["args"]["city"], str)
    streamed = None
    n_chunks = 0
    for chunk in bound.stream("Add 3 and 4."):
        n_chunks += 1 if chunk.tool_call_chunks else 0
        streamed = chunk if streamed is None else streamed + chunk
    assert [(c["name"], c["args"]) for c in streamed.tool_calls] == [(call["name"], call["args"])]
    assert n_chunks > 2, "arguments stream"


@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_structured_output(llm, method):
    city = llm.with_structured_output(City, method=method).invoke("Describe Paris.")
    assert isinstance(city, City) and city.name


def test_json_mode(llm):
    text = llm.bind(response_format={"type": "json_object"}).invoke("Write an object with the key city.").content
    assert isinstance(json.loads(text), dict)


def test_embeddings(qwen):
    embedder = OpenAIEmbeddings(model="any", base_url=f"{qwen.url}/v1", api_key="none", check_embedding_ctx_length=False)
    vectors = embedder.embed_documents(["a cat", "a dog", "a cat"])
    assert len(vectors) == 3 and vectors[0] == vectors[2] != vectors[1]
    assert abs(sum(x * x for x in vectors[0]) - 1) < 1e-3
    assert embedder.embed_query("a cat") == vectors[0]


def test_errors_are_the_clients_exceptions(qwen, llm):
    with pytest.raises(openai.BadRequestError) as refused:
        llm.invoke("word " * 9000)
    assert "exceed" in str(refused.value)
    with pytest.raises(openai.BadRequestError):
        llm.bind(tools=[{"type": "function", "function": {"name": "f", "parameters": {"type": "strin"}}}]).invoke("x")
    with pytest.raises(openai.APIConnectionError):
        ChatOpenAI(model="any", base_url="http://127.0.0.1:9", api_key="none", max_retries=0).invoke("x")

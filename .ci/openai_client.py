"""Asks a server of the embedded pair by OpenAI's Python package."""

import sys

import openai


def main() -> None:
    client = openai.OpenAI(base_url=f"{sys.argv[1]}/v1", api_key="-", max_retries=0)
    [model] = client.models.list().data
    ask = {"model": model.id, "prompt": "fn main() {", "max_tokens": 16, "seed": 7}
    # Fields of vLLM travel in the body.
    ask["extra_body"] = {"ignore_eos": True}
    whole = client.completions.create(**ask, logprobs=3)
    [choice] = whole.choices
    assert whole.usage.completion_tokens == 16 and choice.finish_reason == "length", whole
    assert len(choice.logprobs.token_logprobs) == 16
    assert all(len(top) >= 3 for top in choice.logprobs.top_logprobs)

    parts = client.completions.create(**ask, stream=True, stream_options={"include_usage": True})
    parts = list(parts)
    assert "".join(c.text for part in parts for c in part.choices) == choice.text
    assert parts[-1].usage == whole.usage

    several = client.completions.create(**ask, n=3, temperature=0.7, top_p=0.9, stop=["}"])
    assert sorted(c.index for c in several.choices) == [0, 1, 2]
    assert all("}" not in c.text for c in several.choices)

    more = {"top_k": 5, "return_token_ids": True, "ignore_eos": True}
    ids = client.completions.create(**{**ask, "extra_body": more}).model_dump()
    assert len(ids["choices"][0]["token_ids"]) == 16
    rounds = ids["metrics"]["speculative_decoding"]
    assert rounds["num_spec_steps"] == sum(drafted > 0 for drafted in rounds["per_step_drafted"])

    for field, value in [("temperature", -1), ("max_tokens", 5000)]:
        try:
            client.completions.create(**{**ask, field: value})
            raise AssertionError(f"{field} = {value} must be refused")
        except openai.BadRequestError as error:
            assert field in error.message, error.message
    try:
        # The embedded pair has no chat template.
        message = {"role": "user", "content": "fn main() {"}
        client.chat.completions.create(model=model.id, messages=[message])
        raise AssertionError("a chat needs a template")
    except openai.BadRequestError as error:
        assert "chat template" in error.message, error.message
    print(f"openai {openai.__version__}: models, completions, streams, choices, errors")


if __name__ == "__main__":
    main()

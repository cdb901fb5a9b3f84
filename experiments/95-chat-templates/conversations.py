"""The conversations that every template is given."""

TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


def message(role, content, **more):
    return {"role": role, "content": content, **more}


def asked(*messages, **more):
    """The values of a rendering, as transformers passes them."""
    values = {"messages": list(messages), "tools": None, "documents": None}
    return {**values, "add_generation_prompt": True, **TOKENS, **more}


SYSTEM = message("system", "You are terse.\nAnswer in one line. ")
USER = message("user", "What is 2 + 2?")
ANSWER = message("assistant", " Four.\n")
AGAIN = message("user", "  And \"3\" + '3'? <b>bold</b> & \\n \t\u00e9 \u4f60\u597d \U0001f600\n")
THOUGHT = message("assistant", "<think>\nHmm, easy.\n</think>\n\nIt is four.")

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a place: \"now\" & <here>.",
        "parameters": {
            "type": "object",
            "properties": {
                "place": {"type": "string", "description": "A place, e.g. K\u00f6ln"},
                "days": {"type": "integer", "description": "How many", "minimum": 1},
                "units": {"type": "string", "enum": ["metric", "imperial"]},
            },
            "required": ["place"],
        },
    },
}
CALL = {
    "type": "function",
    "id": "call12345",
    "function": {"name": "weather", "arguments": {"place": "K\u00f6ln", "days": 2}},
}
CALLING = message("assistant", "", tool_calls=[CALL])
RESULT = message("tool", '{"sky": "grey"}', name="weather", tool_call_id="call12345")
PARTS = [{"type": "text", "text": "Look: "}, {"type": "text", "text": "two parts."}]

CASES = [
    ("user", asked(USER)),
    ("system", asked(SYSTEM, USER)),
    ("turns", asked(USER, ANSWER, AGAIN)),
    ("system and turns", asked(SYSTEM, USER, ANSWER, AGAIN)),
    ("thought", asked(SYSTEM, USER, THOUGHT, AGAIN)),
    ("history only", asked(USER, ANSWER, add_generation_prompt=False)),
    ("two users", asked(USER, AGAIN)),
    ("assistant first", asked(ANSWER, USER)),
    ("empty content", asked(message("user", ""))),
    ("unknown role", asked(USER, message("narrator", "Silence."), AGAIN)),
    ("parts", asked(message("user", PARTS))),
    ("no content", asked(USER, message("assistant", None), AGAIN)),
    ("tools", asked(SYSTEM, USER, tools=[WEATHER])),
    ("tool call", asked(USER, CALLING, RESULT, tools=[WEATHER])),
    ("tool call and answer", asked(SYSTEM, USER, CALLING, RESULT, ANSWER, AGAIN, tools=[WEATHER])),
    ("without thinking", asked(USER, enable_thinking=False)),
]

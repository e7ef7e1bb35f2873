"""The README.md of an exported folder: how to use it, and where it comes from."""

from transduce.model_folder import ModelFolder

USE = {
    "marian": """```python
from transformers import MarianMTModel, MarianTokenizer

tokenizer = MarianTokenizer.from_pretrained(FOLDER)
model = MarianMTModel.from_pretrained(FOLDER)
batch = tokenizer(["{prefix}..."], return_tensors="pt", padding=True)
print(tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True))
```
""",
    "ctranslate2": "`python example.py < in > out` needs ctranslate2 and sentencepiece only.\n",
}


def describe_export(to: str, folder: ModelFolder, languages: tuple[str, str] | None) -> str:
    """Return the content of README.md, with the licence and languages as front matter."""
    matter = ["---"]
    if isinstance(license_name := folder.card.get("license"), str):
        matter.append(f"license: {license_name}")
    if languages:
        matter += ["language:", *(f"- {name}" for name in languages)]
    prefix = " ".join(folder.config.text.source_prefix or ())
    lines = [*matter, "tags:", "- translation", "---", "", "# A translator made by transduce", ""]
    if prefix:
        lines += [f"Put `{prefix}` before each sentence.", ""]
    if folder.config.text.normalization != "none":
        form = folder.config.text.normalization.upper()
        lines += [f"Normalize text to Unicode's form {form} first.", ""]
    return "\n".join(lines) + USE[to].replace("{prefix}", f"{prefix} " if prefix else "")
